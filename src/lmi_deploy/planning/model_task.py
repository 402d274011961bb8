"""The task of a model, by its repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from lmi_deploy.domain.recipe import Task

_ARCHITECTURES: tuple[tuple[str, Task], ...] = (
    ("ForCausalLM", "text-generation"),
    ("LMHeadModel", "text-generation"),
    ("ForConditionalGeneration", "text2text-generation"),
    ("ForSequenceClassification", "text-classification"),
    ("ForQuestionAnswering", "question-answering"),
)
_HUB_NAMES: Mapping[str, Task] = {
    "feature-extraction": "text-embedding",
    "sentence-similarity": "text-embedding",
    **{task: task for task in get_args(Task)},
}


def architecture_of(config: Mapping[str, Any]) -> str:
    """The first architecture in config.json, or an empty string; an untrusted file may contain any value there."""
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else ""
    return first if isinstance(first, str) else ""


def task_of(config: Mapping[str, Any], pipeline_tag: str | None) -> Task | None:
    """By the architecture, which shows what the weights can do; else by the Hub's own label."""
    architecture = architecture_of(config)
    by_code = next((task for suffix, task in _ARCHITECTURES if architecture.endswith(suffix)), None)
    return by_code or _HUB_NAMES.get(pipeline_tag or "")
