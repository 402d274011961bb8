"""`lmi init MODEL`: from a model's repository to a commented recipe, every choice with its reason. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.facts import ModelListing
from lmi_deploy.domain.naming import MAX_NAME
from lmi_deploy.domain.recipe import Files, Task
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.file_selection import select
from lmi_deploy.planning.recognition import architecture_of, recognize
from lmi_deploy.recipe.model.declaration import RECIPE, TEMPLATES
from lmi_deploy.recipe.model.field_types import Group
from lmi_deploy.sizing.instance_selection import Hardware, hardware_for, startup_for

_PLAIN = re.compile(r"[A-Za-z./][A-Za-z0-9._/-]*")
_WIDTH = 110
_ON_VLLM: tuple[Task, ...] = ("text-generation", "text-embedding")
_TEMPLATES: Mapping[str, str] = {
    "text-generation": "Ours: chat and completions as OpenAI's clients send them, streamed.",
    "text2text-generation": "Ours: a text in, a text out, streamed where asked.",
    "text-embedding": "Ours: texts in, their vectors out, pooled as the model was trained.",
    "text-classification": "Ours: texts in, labels with scores out, best first.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """The observed content of a repository. `weights` is None if nothing safe to load exists, and `why` says so."""

    listing: ModelListing
    config: Mapping[str, Any]
    task: Task | None
    weights: int | None
    why: str


def choose(
    listing: ModelListing,
    config: Mapping[str, Any],
    *,
    revision: str = "main",
    schema: str = "recipe.schema.json",
) -> str:
    """The text of a valid recipe for this model. `schema` is the JSON Schema for editors."""
    model_summary = _summarize(listing, config)
    blocks = [
        f"# yaml-language-server: $schema={schema}",
        _head(model_summary, schema),
        *_model(model_summary, revision),
        *_engine(model_summary),
        *_place(model_summary),
        *_sagemaker(model_summary),
    ]
    return "\n\n".join(blocks) + "\n"


def name_for(model_id: str) -> str:
    """A deployment's name from the model's, shortened so that an overlay's name fits; invalid characters become
    dashes.
    """
    last = model_id.rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")
    return name[: MAX_NAME - 8].strip("-") or "model"


def _summarize(listing: ModelListing, config: Mapping[str, Any]) -> ModelSummary:
    task = recognize(listing, config).task
    try:
        weights = select(listing, Files(), remote_code=False).size
    except Unresolvable as reason:
        return ModelSummary(listing=listing, config=config, task=task, weights=None, why=reason.message)
    return ModelSummary(listing=listing, config=config, task=task, weights=weights, why="")


def _head(model_summary: ModelSummary, schema: str) -> str:
    architecture = architecture_of(model_summary.config) or "an architecture that config.json does not name"
    size = (
        f"{model_summary.weights / GIB:.2f} GiB to bring"
        if model_summary.weights is not None
        else "weights not settled, see files"
    )
    return "\n".join(
        [
            f"# {_comment(model_summary.listing.model_id)}: {_comment(architecture)}, {size}.",
            "# Written by `lmi init`; next: `lmi validate`, `lmi plan`, `lmi up`.",
            f"# The schema named above is for editors: `lmi schema > {schema}` writes it.",
        ]
    )


def _model(model_summary: ModelSummary, revision: str) -> Iterator[str]:
    listing = model_summary.listing
    yield _key("name", name_for(listing.model_id), "From the model's own name.")
    yield _key("model_id", _scalar(listing.model_id), "")
    if listing.source == "hub":
        yield _key("revision", _scalar(revision), f"Today that is {listing.commit}.")
    if model_summary.weights is None:
        yield _note("files", f"{model_summary.why}. If you trust its authors:", "files: {allow_pickle: true}")
    if model_summary.config.get("auto_map"):
        why = "The model brings code of its own, which would run on your server. Read it, then:"
        yield _note("trust_remote_code", why, "trust_remote_code: true")


def _engine(model_summary: ModelSummary) -> Iterator[str]:
    yield _key("engine", "accelerate", "Transformers runs most models of the Hub, on a CPU as well.")
    if model_summary.task:
        text = _comment(architecture_of(model_summary.config)) or model_summary.listing.pipeline_tag
        yield _key("task", model_summary.task, f"The repository says {text}.")
    else:
        why = "Neither config.json nor the Hub tells; if you know, say so:"
        yield _note("task", why, "task: text-generation")
    if model_summary.task in TEMPLATES:
        yield _key("handler", f"{{template: {model_summary.task}}}", _TEMPLATES[model_summary.task])
    else:
        why = "DJL's own, as no template of ours does this task yet."
        yield _key("handler", "{builtin: djl_python.huggingface}", why)


def _place(model_summary: ModelSummary) -> Iterator[str]:
    yield _key("endpoint", "{target: local}", "This machine: 127.0.0.1, and a port that is free.")
    startup, why = startup_for(model_summary.weights)
    yield _key("timeouts", f"{{container_startup: {startup}, predict: 60}}", f"Start-up: {why}")


def _sagemaker(model_summary: ModelSummary) -> Iterator[str]:
    """The same model on SageMaker, as comments to use in place of the above."""
    if not model_summary.weights:
        return
    chosen = hardware_for(model_summary.weights, model_summary.config.get("num_attention_heads"))
    on_vllm = model_summary.task in _ON_VLLM
    instead = "engine, handler and endpoint" if on_vllm else "endpoint"
    title = f"# On SageMaker, in place of {instead} above:"
    yield "\n".join([title, *(f"# {line}" for line in _cloud(chosen, on_vllm=on_vllm))])


def _cloud(chosen: Hardware, *, on_vllm: bool) -> Iterator[str]:
    if on_vllm:
        yield "engine: vllm"
    yield f"instance_type: {chosen.instance}    # {chosen.why}"
    yield f"tensor_parallel_degree: {chosen.degree}"
    yield "endpoint: {target: sagemaker, region: us-east-1}"


def _key(name: str, value: str, why: str) -> str:
    """A key with its meaning, as the declaration words it, and the reason for its value."""
    return "\n".join([*_comments(f"{_doc(name)} {why}".strip()), f"{name}: {value}"])


def _note(name: str, why: str, line: str) -> str:
    """A key that the user should decide on, commented out."""
    return "\n".join([*_comments(f"{_doc(name)} {_comment(why)}"), f"# {line}"])


def _doc(path: str) -> str:
    group: Group = RECIPE
    *parents, last = path.split(".")
    for parent in parents:
        key = group.find(parent)
        assert key is not None
        assert isinstance(key.shape, Group)
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
    return "".join(char for char in text if char.isprintable())[:300]


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text not in ("null", "Null", "NULL") else json.dumps(text)
