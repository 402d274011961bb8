"""`lmi init MODEL`: from a model's repository to a commented recipe, every choice with its reason. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from lmi_deploy.catalog.options import IMAGE_TEMPLATE
from lmi_deploy.domain.deployment_names import name_for
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.number_text import gib_text
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.recipe_weights_keys import Files
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.file_selection import select
from lmi_deploy.planning.task_detection import DetectedTask, ModelKind, architecture_of, detect_task
from lmi_deploy.recipe.model.field_types import KeyGroup
from lmi_deploy.recipe.model.key_readers import RECIPE, TEMPLATES

InitEngine = Literal["vllm", "accelerate"]
_PLAIN = re.compile(r"[A-Za-z./][A-Za-z0-9._/-]*")
_WIDTH = 110
_ON_VLLM: Final[tuple[ModelKind, ...]] = (
    "text-generation",
    "vision-language",
    "audio-language",
    "text-embedding",
    "unknown",
)
_ONLY_VLLM: Final[tuple[ModelKind, ...]] = ("audio-language",)
"""lmi's templates and DJL's handler take texts and images."""
_TEMPLATES: Mapping[str, str] = {
    "text-generation": "Template of lmi: chat and completions in OpenAI's format, streamed.",
    "text2text-generation": "Template of lmi: text in, text out, streamed on request.",
    "text-embedding": "Template of lmi: texts in, vectors out, pooled as the model was trained.",
    "text-classification": "Template of lmi: texts or pairs of texts in, labels with scores out, best first.",
    "image-text-to-text": "Template of lmi: chat with images in OpenAI's format, streamed.",
    "question-answering": "Template of lmi: question and context in, the answer with its place in the context out.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """The observed content of a repository. `weights` is None if nothing safe to load exists, and `why` says so."""

    listing: ModelListing
    config: Mapping[str, Any]
    recognition: DetectedTask
    weights: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is chosen for a model, each with its reason; empty and None leave a key out."""

    target: TargetName
    engine: InitEngine
    region: str = ""
    instance: str = ""
    price: str = ""
    """Beside the instance type."""
    why: str = ""
    """The instance type, or that it fits this machine."""
    degree: int | None = None
    version: str = ""
    options: tuple[tuple[str, str, str], ...] = ()
    """Key, value, reason."""
    startup: int
    startup_why: str


def summarize(listing: ModelListing, config: Mapping[str, Any]) -> ModelSummary:
    recognition = detect_task(listing, config)
    try:
        weights, why = select(listing, Files(), remote_code=False).size, ""
    except Unresolvable as reason:
        weights, why = None, reason.message
    return ModelSummary(listing=listing, config=config, recognition=recognition, weights=weights, why=why)


def engine_for(model: DetectedTask, requested: InitEngine | None, *, can_run_vllm: bool) -> InitEngine:
    """vLLM for what it serves, where it can run; else Transformers. Unresolvable if neither serves the model."""
    if not model.servable:
        raise Unresolvable(f"lmi cannot write a recipe for this model: {model.evidence}", hint=model.advice)
    if requested == "vllm" and model.kind not in _ON_VLLM:
        raise Unresolvable(
            f"engine vllm does not support {model.kind} ({model.evidence})", hint="omit --engine"
        )
    if requested == "accelerate" and model.kind in _ONLY_VLLM:
        raise Unresolvable(
            f"engine accelerate does not support {model.kind} ({model.evidence})", hint="omit --engine"
        )
    if requested is not None:
        return requested
    if not can_run_vllm:
        if model.kind in _ONLY_VLLM:
            raise Unresolvable(
                f"a {model.kind} model ({model.evidence}) needs engine vllm, which needs a GPU and a container CLI",
                hint="add --target sagemaker, or --engine vllm on a machine that has both",
            )
        return "accelerate"
    return "vllm" if model.kind in _ON_VLLM else "accelerate"


def write_recipe(
    model: ModelSummary, choice: Choice, *, revision: str, schema: str, plain: bool = False
) -> str:
    """The text of a valid recipe. `schema` is the JSON Schema for editors; `plain` leaves all comments out."""
    blocks = [
        f"# yaml-language-server: $schema={schema}",
        _head(model, schema),
        *_model(model, revision),
        *_engine(model, choice),
        *_place(choice),
    ]
    text = "\n\n".join(blocks) + "\n"
    return _without_comments(text) if plain else text


def decisions_left(model: ModelSummary) -> Iterator[str]:
    """What the user has to decide before the recipe can be deployed."""
    if model.weights is None:
        yield f"{model.why}: if you trust its authors, write files: {{allow_pickle: true}}"
    if model.config.get("auto_map"):
        yield "the model contains its own code: read it, then write trust_remote_code: true"
    if model.recognition.kind == "unknown":
        yield f"the task is unknown ({model.recognition.evidence}): {model.recognition.advice}"


def _head(model: ModelSummary, schema: str) -> str:
    architecture = architecture_of(model.config) or "unknown architecture (not in config.json)"
    size = (
        f"{gib_text(model.weights, 2)} to download"
        if model.weights is not None
        else "no weights selected yet (see `files`)"
    )
    return "\n".join(
        [
            f"# {_comment(model.listing.model_id)}: {_comment(architecture)}, {size}.",
            "# Written by `lmi init`; next: `lmi validate`, `lmi plan`, `lmi up`.",
            f"# Editors read the schema that the first line names: `lmi schema > {schema}` writes it.",
        ]
    )


def _model(model: ModelSummary, revision: str) -> Iterator[str]:
    listing = model.listing
    yield _key("name", name_for(listing.model_id), "Derived from the model's name.")
    yield _key("model_id", _scalar(listing.model_id), "")
    if listing.source == "hub":
        yield _key("revision", _scalar(revision), f"It is now {listing.commit}.")
    if model.weights is None:
        yield _note("files", f"{model.why}. If you trust its authors:", "files: {allow_pickle: true}")
    if model.config.get("auto_map"):
        why = "The model contains its own code, which would run on your server. Read it, then:"
        yield _note("trust_remote_code", why, "trust_remote_code: true")


def _engine(model: ModelSummary, choice: Choice) -> Iterator[str]:
    why = {
        "vllm": "vLLM is the fastest engine of LMI for this kind of model.",
        "accelerate": "Transformers runs most models of the Hub, on a CPU as well.",
    }
    recognition = model.recognition
    yield _key("engine", choice.engine, why[choice.engine])
    if recognition.task:
        yield _key("task", recognition.task, f"It is {recognition.kind}: {_comment(recognition.evidence)}.")
    else:
        yield _note("task", f"{recognition.evidence}; if you know the task, set it:", "task: text-generation")
    if choice.engine == "accelerate":
        yield _handler(recognition)
    if choice.version:
        yield _key(
            "container", f"{{version: {choice.version}}}", "The newest version whose options lmi knows."
        )
    if choice.options:
        lines = [line for key, value, text in choice.options for line in _option(key, value, text)]
        yield "\n".join([*_comments(_doc("options")), "options:", *lines])


def _option(key: str, value: str, why: str) -> list[str]:
    return [*(f"  {line}" for line in _comments(why)), f"  {key}: {value}"]


def _handler(model: DetectedTask) -> str:
    template = IMAGE_TEMPLATE if model.kind == "vision-language" else model.task
    if template in TEMPLATES:
        return _key("handler", f"{{template: {template}}}", _TEMPLATES[template])
    return _key(
        "handler",
        "{builtin: djl_python.huggingface}",
        "DJL's handler, because lmi has no template for this task yet.",
    )


def _place(choice: Choice) -> Iterator[str]:
    if choice.target == "sagemaker":
        yield _key("instance_type", choice.instance, choice.why) + f"  # {choice.price}"
        if choice.degree:
            yield _key("tensor_parallel_degree", str(choice.degree), "")
        yield _key("endpoint", f"{{target: sagemaker, region: {choice.region}}}", "")
    else:
        why = f"This machine: 127.0.0.1, a free port. {choice.why}"
        yield _key("endpoint", "{target: local}", why)
    yield _key(
        "timeouts", f"{{container_startup: {choice.startup}, predict: 60}}", f"Start-up: {choice.startup_why}"
    )


def _key(name: str, value: str, why: str) -> str:
    """A key with its meaning, as the declaration words it, and the reason for its value."""
    return "\n".join([*_comments(f"{_doc(name)} {_comment(why)}".strip()), f"{name}: {value}"])


def _note(name: str, why: str, line: str) -> str:
    """A key that the user should decide on, commented out."""
    return "\n".join([*_comments(f"{_doc(name)} {_comment(why)}"), f"# {line}"])


def _doc(path: str) -> str:
    group: KeyGroup = RECIPE
    *parents, last = path.split(".")
    for parent in parents:
        key = group.find(parent)
        assert key is not None
        assert isinstance(key.shape, KeyGroup)
        group = key.shape
    found = group.find(last)
    assert found is not None
    return found.doc


def _comments(text: str) -> Iterator[str]:
    line = "#"
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = "#"
        line += f" {word}"
    yield line


def _comment(text: str) -> str:
    """A repository's description of itself, as a comment: printable, on one line, of limited length."""
    return "".join(char for char in text if char.isprintable())[:400]


def _without_comments(text: str) -> str:
    lines = (line.partition("  # ")[0] for line in text.splitlines() if not line.lstrip().startswith("#"))
    return "\n".join(line for line in lines if line) + "\n"


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text not in ("null", "Null", "NULL") else json.dumps(text)
