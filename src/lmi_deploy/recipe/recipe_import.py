"""Make a recipe of what people have: serving.properties, environment variables, a handler of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog import options
from lmi_deploy.domain.deployment_names import name_for
from lmi_deploy.domain.djl_serving import MODEL_PY
from lmi_deploy.errors import RecipeError, UsageRefused
from lmi_deploy.recipe.import_engines import EngineMatch, choose_engine
from lmi_deploy.recipe.import_settings import ImportSource, merged_settings
from lmi_deploy.recipe.option_migration import moves
from lmi_deploy.recipe.parse import parse
from lmi_deploy.recipe.reader import Purpose
from lmi_deploy.recipe.secret_detection import names_secret, secret_in

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_MOST_SECONDS: Final = 3600
_MOST_PREDICT: Final = 60
_TAKEN_ALONG: Final = (
    *("VLLM_", "NCCL_", "SERVING_", "ARGS_", "HF_", "PYTORCH_", "TORCH_", "OMP_", "SAGEMAKER_"),
    *("LMCACHE_", "TRANSFORMERS_", "TOKENIZERS_", "CUDA_"),
)
"""Beginnings of variables that are settings; the others belong to the process or the image."""
_ROUNDS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRecipe:
    """`notes` are differences to what was imported; they stand in the recipe as comments as well."""

    name: str
    text: str
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Draft:
    """Pairs that may still turn out to be refused."""

    head: list[tuple[str, str]]
    """Keys with values as YAML writes them."""
    environment: dict[str, str]
    options: dict[str, str]
    properties: dict[str, str]
    endpoint: dict[str, object]
    notes: list[str]
    container: dict[str, str]
    command: str


def import_recipe(
    source: ImportSource,
    *,
    model_id: str = "",
    version: str,
    instances: Sequence[str] = (),
    local: bool = False,
    purpose: Purpose,
) -> ImportedRecipe:
    """UsageRefused if no model is named anywhere. What the server of `version` would drop is left out, with a note."""
    settings, variables = merged_settings(source.properties, source.environment)
    model = model_id or source.weights or settings.get("option.model_id")
    # Code without weights: its folder is all that the server gets.
    model = model or source.model_py.removesuffix(MODEL_PY)
    if not model:
        raise UsageRefused(
            f"{source.origin}: names no model (option.model_id, option.s3url, HF_MODEL_ID), and holds neither weights "
            "nor a model.py",
            hint="add --model owner/name, an s3:// prefix or a folder",
        )
    settings["option.model_id"] = model
    choice = _engine(source, settings, version)
    del settings["option.model_id"]
    draft = _draft(source, choice, settings, variables, version)
    name = name_for(source.name or model)
    draft.head = [("name", name), ("model_id", _scalar(model)), *draft.head, *_place(instances, local=local)]
    if not instances and not local:
        draft.notes.append(
            "choose an instance_type: `lmi instances --fits RECIPE` lists the types that hold the model"
        )
    text = _accepted(draft, source.origin, purpose)
    return ImportedRecipe(name=name, text=text, notes=tuple(draft.notes))


def _engine(source: ImportSource, settings: dict[str, str], version: str) -> EngineMatch:
    if source.engine is None:
        return choose_engine(settings, own_code=bool(source.model_py), version=version)
    found = choose_engine(settings, own_code=False, version=version)
    return EngineMatch(engine=source.engine, task=found.task if source.engine == "accelerate" else None)


def _draft(
    source: ImportSource,
    choice: EngineMatch,
    settings: dict[str, str],
    variables: Mapping[str, str],
    version: str,
) -> _Draft:
    notes = [*source.notes, *choice.notes]
    head = [
        *_model_keys(settings),
        ("engine", choice.engine),
        *([("task", choice.task)] if choice.task else []),
        *_degree(settings, notes),
        *_trust(settings),
        *_handler(source, choice, notes),
        *_timeouts(settings, source.timeouts, notes),
    ]
    own = {key.removeprefix("option."): value for key, value in settings.items() if key.startswith("option.")}
    for move in moves(choice.engine, own.items(), version):
        del own[move.name]
        if move.became:
            own[move.became[0]] = move.became[1]
        became = f"became {': '.join(move.became)}" if move.became else "was dropped"
        notes.append(f"option.{move.name}={move.value} {became}: {move.why}")
    if source.other_files:
        notes.append(f"not imported: {', '.join(source.other_files[:8])}")
    return _Draft(
        head=head,
        environment=_environment(variables, notes),
        options=own,
        properties={key: value for key, value in settings.items() if not key.startswith("option.")},
        endpoint=dict(source.endpoint),
        notes=notes,
        container=dict(source.container or {"version": version.partition("/")[0]}),
        command=source.command,
    )


def _model_keys(settings: dict[str, str]) -> Iterator[tuple[str, str]]:
    if revision := settings.pop("option.revision", ""):
        yield "revision", _scalar(revision)


def _degree(settings: dict[str, str], notes: list[str]) -> Iterator[tuple[str, str]]:
    degree = settings.pop("option.tensor_parallel_degree", "")
    if degree.isdecimal() and int(degree) > 0:
        yield "tensor_parallel_degree", degree
    elif degree not in ("", "max", "auto"):
        notes.append(
            f"option.tensor_parallel_degree={degree} is not a number of devices: lmi uses all devices"
        )


def _trust(settings: dict[str, str]) -> Iterator[tuple[str, str]]:
    if settings.pop("option.trust_remote_code", "").lower() in ("true", "1"):
        yield "trust_remote_code", "true"
    if settings.pop("option.trust_insecure_model_files", "").lower() in ("true", "1"):
        yield "files", "{allow_pickle: true}"


def _handler(source: ImportSource, choice: EngineMatch, notes: list[str]) -> Iterator[tuple[str, str]]:
    if source.model_py:
        yield "handler", f"{{file: {_scalar(source.model_py)}}}"
        yield "probe", '{body: \'{"inputs": "OK"}\'}'
        notes.append("lmi guessed probe.body: replace it with a request that your model.py answers")
    elif choice.builtin:
        yield "handler", f"{{builtin: {choice.builtin}}}"
    if source.requirements and source.model_py:
        yield "requirements", _scalar(source.requirements)
    elif source.requirements:
        notes.append(f"{source.requirements} was removed: engine {choice.engine} has its own packages")


def _timeouts(
    settings: dict[str, str], given: Mapping[str, int], notes: list[str]
) -> Iterator[tuple[str, str]]:
    found = dict(given)
    limits = (
        ("model_loading_timeout", "model_loading", _MOST_SECONDS),
        ("predict_timeout", "predict", _MOST_PREDICT),
    )
    for key, name, most in limits:
        text = settings.pop(f"option.{key}", "")
        if text.isdecimal() and int(text) > 0:
            found[name] = min(int(text), most)
            if int(text) > most:
                notes.append(f"option.{key}={text} became {most}, SageMaker's limit")
        elif text:
            notes.append(f"option.{key}={text} was removed: it is not a number of seconds")
    if found:
        yield "timeouts", "{" + ", ".join(f"{name}: {seconds}" for name, seconds in found.items()) + "}"


def _environment(variables: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    kept, secrets, others = {}, [], []
    for name, value in variables.items():
        if names_secret(name) or secret_in(value):
            secrets.append(name)
        elif name.startswith(_TAKEN_ALONG):
            kept[name] = value
        else:
            others.append(name)
    if secrets:
        notes.append(f"lmi does not import secrets: {', '.join(secrets)} (`lmi docs use-secrets`)")
    if others:
        notes.append(f"lmi does not import variables of the process or the image: {', '.join(others[:12])}")
    return kept


def _place(instances: Sequence[str], *, local: bool) -> list[tuple[str, str]]:
    if local:
        return [("endpoint", "{target: local}")]
    if len(instances) > 1:
        return [("instance_type", json.dumps(list(instances)))]
    return [("instance_type", _scalar(name)) for name in instances]


def _accepted(draft: _Draft, origin: str, purpose: Purpose) -> str:
    """The recipe without the pairs that its own checks refuse; other mistakes stay, for the user to decide."""
    for _ in range(_ROUNDS):
        text = _text(draft, origin)
        refused = [key for key in _mistakes(text, purpose) if _remove(draft, *key)]
        if not refused:
            return text
    return _text(draft, origin)


def _mistakes(text: str, purpose: Purpose) -> list[tuple[str, str]]:
    try:
        parse(text, "import", purpose=purpose)
    except RecipeError as error:
        return [(problem.key, problem.what) for problem in error.problems]
    return []


def _remove(draft: _Draft, key: str, why: str) -> bool:
    """Whether it was an option, a property, a variable, or a setting of the endpoint."""
    group, _, inside = key.partition(".")
    setting = inside.partition(".")[0]
    if group == "endpoint" and setting in draft.endpoint:
        draft.notes.append(f"endpoint.{setting}: {draft.endpoint.pop(setting)} was removed: {why}")
        return True
    for prefix, pairs in (
        ("options.", draft.options),
        ("properties.", draft.properties),
        ("container.environment.", draft.environment),
    ):
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and name in pairs:
            draft.notes.append(f"{key}: {pairs.pop(name)} was removed: {why}")
            return True
    return False


def _text(draft: _Draft, origin: str) -> str:
    lines = [
        f"# Written by `lmi {draft.command}` from {_comment(origin)}.",
        *(f"# - {_comment(note)}" for note in draft.notes),
    ]
    lines += [f"{key}: {value}" for key, value in draft.head]
    lines += ["container:", *_pairs(draft.container, indent=2)]
    if draft.environment:
        lines += ["  environment:", *_pairs(draft.environment, indent=4)]
    for key, pairs in (("options", draft.options), ("properties", draft.properties)):
        if pairs:
            lines += [f"{key}:", *_pairs(pairs, indent=2)]
    if draft.endpoint:
        lines += ["endpoint:", *(f"  {key}: {_value(value)}" for key, value in draft.endpoint.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    """JSON is YAML."""
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _pairs(pairs: Mapping[str, str], *, indent: int) -> Iterator[str]:
    yield from (f"{' ' * indent}{_scalar(name)}: {_scalar(value)}" for name, value in pairs.items())


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return f"'{text}'" if text.isprintable() and text and "'" not in text else json.dumps(text)


def _comment(text: str) -> str:
    return "".join(char for char in text if char.isprintable())[:400]


def newest_version() -> str:
    """The newest server whose options lmi knows."""
    return options.newest("vllm")
