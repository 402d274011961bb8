"""Which engine of today serves what an old one served, with the differences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog.server_version import SPANS, require_engine
from lmi_deploy.domain.recipe_keys import Engine, Task
from lmi_deploy.errors import Unresolvable

BUILTIN: Final = "djl_python.huggingface"
_TASKS: Final[Mapping[str, Task]] = {
    "text-generation": "text-generation",
    "conversational": "text-generation",
    "text2text-generation": "text2text-generation",
    "translation": "text2text-generation",
    "summarization": "text2text-generation",
    "feature-extraction": "text-embedding",
    "sentence-similarity": "text-embedding",
    "text-embedding": "text-embedding",
    "embed": "text-embedding",
    "text-classification": "text-classification",
    "sentiment-analysis": "text-classification",
    "question-answering": "question-answering",
}
_ENCODER_DECODER = re.compile(
    r"(^|[-_/])(flan|t5|mt5|ul2|bart|mbart|pegasus|marian|opus-mt|m2m)", re.IGNORECASE
)
_OLD: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    (
        "FasterTransformer",
        re.compile(r"fastertransformer", re.IGNORECASE),
        "DJLServing 0.25 removed FasterTransformer (last image 0.24.0). Requests and responses change: max_seq_len is "
        "now max_new_tokens; beam_width is num_beams with accelerate, and vllm has no equivalent; the response has "
        "generated_text instead of outputs.",
    ),
    (
        "DeepSpeed",
        re.compile(r"deepspeed", re.IGNORECASE),
        "DJLServing 0.28 removed DeepSpeed (last image 0.27.0). Requests do not change (inputs, parameters). Kernel "
        "injection, checkpoint and SmoothQuant have no equivalent; to quantize, use an AWQ, GPTQ or fp8 checkpoint, "
        "or quantize: fp8 or bitsandbytes.",
    ),
    (
        "Transformers-NeuronX",
        re.compile(r"neuronx|(^|\W)tnx($|\W)", re.IGNORECASE),
        "DJLServing 0.35 removed Neuron (last image 0.29.0): choose an instance type with GPUs.",
    ),
    (
        "TensorRT-LLM",
        re.compile(r"tensorrt_llm|trtllm|mpi.*trt", re.IGNORECASE),
        "The last image with TensorRT-LLM is 0.33.0. The recipe cannot use compiled engines: vLLM loads the model "
        "from its checkpoint.",
    ),
    (
        "lmi-dist",
        re.compile(r"lmi-dist|lmi_dist", re.IGNORECASE),
        "Since DJLServing 0.33, the server runs vLLM instead of lmi-dist. Requests and responses do not change.",
    ),
    (
        "the rolling batch scheduler",
        re.compile(r"^scheduler$", re.IGNORECASE),
        "DJLServing 0.33 removed the scheduler. vLLM replaces it; clients set decoding_strategy in the request.",
    ),
)
"""What is gone, the mark of it in `engine`, `option.entryPoint` or `option.rolling_batch`, and what differs."""


_ENGINES: Final[Mapping[str, Engine]] = {
    "FasterTransformer": "fastertransformer",
    "DeepSpeed": "deepspeed",
    "Transformers-NeuronX": "neuronx",
    "TensorRT-LLM": "tensorrt-llm",
    "lmi-dist": "lmi-dist",
}
"""Those that a recipe can have, with an image of their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMatch:
    """`builtin` is the handler, if it is not the engine's own."""

    engine: Engine
    task: Task | None
    builtin: str = ""
    notes: tuple[str, ...] = ()


def choose_engine(settings: dict[str, str], *, own_code: bool, version: str) -> EngineMatch:
    """Takes the keys that decide it out of `settings`. An old engine stays if the images of `version` contain it."""
    model = settings.get("option.model_id", "")
    engine, entry, rolling = (
        settings.pop(key, "") for key in ("engine", "option.entryPoint", "option.rolling_batch")
    )
    own = {key: settings.pop(key, "") for key in ("option.mpi_mode", "option.async_mode")}
    written = settings.pop("option.task", "")
    task = _TASKS.get(written.lower())
    notes = [f"lmi does not support option.task={written}"] if written and task is None else []
    old = _old_engine(engine, entry, rolling)
    if old and _contains(version, old[0]):
        if rolling.lower() == "deepspeed":
            settings["option.rolling_batch"] = rolling
        notes.append(f"{old[0]} is kept: {_last(old[0])} is its last image")
        return EngineMatch(engine=_ENGINES[old[0]], task=task, notes=tuple(notes))
    keep = f" To keep {old[0]}, add --version {_last(old[0])}." if old and old[0] in _ENGINES else ""
    if own_code:
        if old:
            notes.append(f"{old[0]}: {old[1]} If your model.py imports it, the import fails.{keep}")
        notes += _left_out({"option.rolling_batch": rolling, **own}, "custom", old)
        return EngineMatch(engine="custom", task=task, notes=tuple(notes))
    if task is None and _ENCODER_DECODER.search(model):
        task = "text2text-generation"
    transformers = task in ("text2text-generation", "text-classification", "question-answering")
    plain = entry == BUILTIN and rolling.lower() in ("", "disable") and engine.lower() != "mpi"
    chosen: Engine = "accelerate" if transformers or (plain and not old) else "vllm"
    if old:
        notes.append(f"{old[0]} became {chosen}. {old[1]}{keep}")
    elif entry and not entry.startswith(("djl_python.huggingface", "djl_python.lmi_vllm")):
        notes.append(f"option.entryPoint={entry} became engine {chosen}")
    notes += _left_out({"option.rolling_batch": rolling, **own}, chosen, old)
    return EngineMatch(
        engine=chosen,
        task=task,
        builtin=BUILTIN if chosen == "accelerate" and entry == BUILTIN else "",
        notes=tuple(notes),
    )


def _left_out(found: Mapping[str, str], engine: Engine, old: tuple[str, str] | None) -> list[str]:
    """Notes of what lmi chooses itself; the note of an old engine covers its rolling batch."""
    left = {
        key: value for key, value in found.items() if value and not (old and key.endswith("rolling_batch"))
    }
    return [f"{key}={value} was left out: lmi chooses it for engine {engine}" for key, value in left.items()]


def _contains(version: str, name: str) -> bool:
    """Whether a recipe for this server version can have the engine."""
    try:
        require_engine(_ENGINES.get(name, ""), version)
    except Unresolvable:
        return False
    return name in _ENGINES


def _last(name: str) -> str:
    return SPANS[_ENGINES[name]].last


def _old_engine(*marks: str) -> tuple[str, str] | None:
    return next(
        (
            (name, difference)
            for name, pattern, difference in _OLD
            if any(pattern.search(mark) for mark in marks if mark)
        ),
        None,
    )
