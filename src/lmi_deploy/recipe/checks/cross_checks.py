"""Cross-checks between fields. They run beside field errors and skip the fields that have one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from lmi_deploy.domain.recipe import DEFAULT_ENGINE
from lmi_deploy.errors.problem import Problem
from lmi_deploy.recipe.checks.model_files import check_model_folder, check_patterns
from lmi_deploy.recipe.checks.options import lint
from lmi_deploy.recipe.checks.sagemaker import check_sagemaker
from lmi_deploy.recipe.reader import ParsedFields
from lmi_deploy.recipe.secret_detection import secret_in
from lmi_deploy.recipe.yaml.tree import ScalarNode

Rule = Callable[[ParsedFields], Iterator[Problem]]
_PREDICT_LIMIT = 60
_JSON = "application/json"
HANDLERS = ("builtin", "template", "file")
OWN_FILES = ("handler.file", "requirements")


def check(partial: ParsedFields) -> tuple[Problem, ...]:
    """Every contradiction between fields that are good in themselves."""
    return tuple(problem for rule in RULES for problem in rule(partial))


def _instances(partial: ParsedFields) -> Iterator[Problem]:
    if partial.value("endpoint.target") == "local" and partial.value("instance_type"):
        hint = "remove it, or in an overlay write instance_type: []"
        yield _at(partial, "instance_type", "endpoint.target is local, which has no instance types", hint)


def _handler(partial: ParsedFields) -> Iterator[Problem]:
    chosen = [name for name in HANDLERS if f"handler.{name}" in partial.found]
    if len(chosen) > 1:
        last = max(chosen, key=lambda name: _where(partial, f"handler.{name}"))
        others = " and ".join(name for name in chosen if name != last)
        yield _at(
            partial,
            f"handler.{last}",
            f"cannot be combined with {others}",
            "keep one of builtin, template and file",
        )
    elif chosen == ["template"]:
        yield from _template(partial)


def _template(partial: ParsedFields) -> Iterator[Problem]:
    engine = partial.value("engine", DEFAULT_ENGINE) if partial.is_valid("engine") else ""
    template = partial.value("handler.template")
    if engine in ("custom", "vllm"):
        what = f"{template} needs engine accelerate"
        yield _at(partial, "handler.template", what, "set handler.file, or engine: accelerate")
    task = partial.value("task")
    if task is not None and task != template:
        hint = "set handler.builtin or handler.file, or another task"
        yield _at(partial, "handler.template", f"{template} does not support task {task}", hint)


def _custom(partial: ParsedFields) -> Iterator[Problem]:
    """A custom engine runs the user's own code, and only its author knows a valid probe."""
    if partial.value("engine") != "custom":
        return
    named = any(f"handler.{name}" in partial.found for name in HANDLERS)
    if not named and partial.is_valid("handler", *(f"handler.{name}" for name in HANDLERS)):
        what = "missing; engine custom runs your own model.py"
        yield _at(partial, "handler.file", what, "such as handler: {file: model.py}")
    if "handler.builtin" in partial.found:
        what = "engine custom runs your own model.py"
        yield _at(partial, "handler.builtin", what, "set handler.file, or use engine: accelerate")
    if "probe.body" not in partial.found and partial.is_valid("probe", "probe.body"):
        what = "missing; lmi does not know the request format of engine custom"
        yield _at(partial, "probe.body", what, 'such as probe: {body: \'{"inputs": "OK"}\'}')


def _probe(partial: ParsedFields) -> Iterator[Problem]:
    if "probe.prompt" in partial.found and "probe.body" in partial.found:
        last = max(("probe.prompt", "probe.body"), key=lambda path: _where(partial, path))
        yield _at(partial, last, "both prompt and body", "keep one of them")


def _probe_body(partial: ParsedFields) -> Iterator[Problem]:
    """Sent unchanged, and refused by the server only once the endpoint runs, and is billed."""
    body = partial.value("probe.body")
    kind = partial.value("probe.content_type", _JSON) if partial.is_valid("probe.content_type") else ""
    if body is None or str(kind).partition(";")[0].strip().lower() != _JSON:
        return
    if why := _no_json(body):
        what, hint = f"is not valid {_JSON}: {why}", "or set content_type, such as text/plain"
        yield _at(partial, "probe.body", what, hint)


def _no_json(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as reason:
        return f"{reason.msg} at its line {reason.lineno}, column {reason.colno}"
    except RecursionError:
        return "it is nested too deep"
    return ""


def _own_files(partial: ParsedFields) -> Iterator[Problem]:
    for path in OWN_FILES if partial.purpose.deploying else ():
        name = partial.value(path)
        if name is not None and (why := partial.purpose.file_error(name)):
            yield _at(partial, path, f"{name}: {why}", "write the path relative to the recipe's folder")


def _timeouts(partial: ParsedFields) -> Iterator[Problem]:
    """One chain: loading is part of start-up, and a real-time response has SageMaker's 60 seconds."""
    loading, startup = partial.value("timeouts.model_loading"), partial.value("timeouts.container_startup")
    if loading is not None and startup is not None and loading > startup:
        what = f"{loading} s is longer than container_startup ({startup} s), which includes the load of the model"
        yield _at(
            partial, "timeouts.model_loading", what, f"use at most {startup}, or a longer container_startup"
        )
    predict = partial.value("timeouts.predict")
    real_time = partial.value("endpoint.target") != "local" and "endpoint.asynchronous" not in partial.found
    if predict is not None and predict > _PREDICT_LIMIT and real_time:
        what = f"{predict} s, but SageMaker limits a real-time request to {_PREDICT_LIMIT} s"
        yield _at(
            partial, "timeouts.predict", what, f"use at most {_PREDICT_LIMIT}, or endpoint.asynchronous"
        )


def _scaling(partial: ParsedFields) -> Iterator[Problem]:
    low, high = partial.value("endpoint.autoscaling.min"), partial.value("endpoint.autoscaling.max")
    if low is not None and high is not None and low > high:
        yield _at(partial, "endpoint.autoscaling.min", f"{low} is more than max ({high})", "")


def _secrets(partial: ParsedFields) -> Iterator[Problem]:
    hint = (
        "keep secrets out of the recipe: for the Hub log in or set HF_TOKEN; for a handler use AWS Secrets Manager "
        "(docs/how-to/use-secrets.md)"
    )
    for path, text in _texts(partial):
        if what := secret_in(text):
            yield _at(partial, path, f"holds {what}", hint)


def _uploader(partial: ParsedFields) -> Iterator[Problem]:
    model_id = str(partial.value("model_id", ""))
    folder = model_id.startswith(("/", "./", "../", "~")) or model_id in (".", "..")
    staged = partial.value("weights.via") == "snapshot"
    is_valid = partial.is_valid("model_id", "weights.via")
    engine = partial.value("weights.engine")
    if engine in ("s5cmd", "obstore") and not staged and not folder and is_valid:
        what = f"{engine} sends files from the disk, but these weights are not stored here"
        hint = "add weights.via: snapshot, which downloads them first, or remove weights.engine"
        yield _at(partial, "weights.engine", what, hint)


def _texts(partial: ParsedFields) -> Iterator[tuple[str, str]]:
    for path, found in partial.found.items():
        if isinstance(found.value, str):
            yield path, found.value
    for path, entry in partial.pairs.items():
        if isinstance(entry.value, ScalarNode):
            yield path, entry.value.text


def _where(partial: ParsedFields, path: str) -> tuple[int, int]:
    place = partial.place(path)
    return (place.line or 1 << 30), place.column


def _at(partial: ParsedFields, path: str, what: str, hint: str) -> Problem:
    place = partial.place(path)
    return Problem(origin=place.origin, line=place.line, column=place.column, key=path, what=what, hint=hint)


RULES: tuple[Rule, ...] = (
    _instances,
    _handler,
    _custom,
    _probe,
    _probe_body,
    _own_files,
    _timeouts,
    _scaling,
    _secrets,
    _uploader,
    check_sagemaker,
    lint,
    check_model_folder,
    check_patterns,
)
