"""The recipe's `options` of engine triton: settings of the model repository that lmi writes.

Meanings and limits: Triton's model configuration (model_config.proto and the user guide, release 24.10, server 2.51).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["int", "bool", "enum", "ints", "file"]
_MOST: Final = 1_000_000
_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonOption:
    """`default` as a recipe would write it; empty: not set. `low` and `high` bound a number, or each of several."""

    kind: Kind
    default: str
    meaning: str
    values: tuple[str, ...] = ()
    low: int = 0
    high: int = _MOST


OPTIONS: Final[Mapping[str, TritonOption]] = {
    "backend": TritonOption(
        kind="enum",
        default="python",
        values=("python", "onnxruntime", "tensorrt"),
        meaning="What runs the model: `python` loads the checkpoint with transformers; the others run an encoder and a "
        "decoder that were compiled ahead of time, `encoder.onnx` and `decoder.onnx`, or `encoder.plan` and "
        "`decoder.plan`, beside the tokenizer's files.",
    ),
    "max_batch_size": TritonOption(
        kind="int",
        default="16",
        low=1,
        high=1024,
        meaning="Maximum number of texts that run through the model together.",
    ),
    "dynamic_batching": TritonOption(
        kind="bool", default="true", meaning="Put requests that wait at the same time into one batch."
    ),
    "preferred_batch_size": TritonOption(
        kind="ints",
        default="",
        low=1,
        high=1024,
        meaning="Batch sizes that start without waiting, such as `4,8,16`; each at most max_batch_size.",
    ),
    "max_queue_delay_microseconds": TritonOption(
        kind="int",
        default="1000",
        high=10_000_000,
        meaning="How long a request may wait for others to fill a batch.",
    ),
    "instance_count": TritonOption(
        kind="int", default="1", low=1, high=64, meaning="Copies of the model: on each GPU, or on the CPU."
    ),
    "instance_kind": TritonOption(
        kind="enum",
        default="KIND_AUTO",
        values=("KIND_AUTO", "KIND_GPU", "KIND_CPU"),
        meaning="Where the copies run; KIND_AUTO: on the GPUs if the machine has any.",
    ),
    "gpus": TritonOption(
        kind="ints",
        default="",
        high=63,
        meaning="The GPUs with copies, such as `0,1`; by default all of them.",
    ),
    "dtype": TritonOption(
        kind="enum",
        default="auto",
        values=("auto", "fp32", "fp16", "bf16"),
        meaning="The dtype in which backend python loads the checkpoint; auto: fp32 on a CPU, else as it is stored.",
    ),
    "token_type": TritonOption(
        kind="enum",
        default="int64",
        values=("int64", "int32"),
        meaning="The type of token ids in compiled models: int64 with ONNX and TensorRT 10, int32 with TensorRT 8.",
    ),
    "max_input_length": TritonOption(
        kind="int", default="512", low=1, meaning="Longest input in tokens; longer ones are refused."
    ),
    "max_new_tokens": TritonOption(
        kind="int", default="64", low=1, meaning="Longest output in tokens, if the request names none."
    ),
    "execution_environment": TritonOption(
        kind="file",
        default="",
        meaning="A packed Python environment (conda-pack) among the weights, with transformers and torch: Triton's "
        "image has neither. This machine and the emulator use an environment of lmi instead.",
    ),
}


def triton_value_mistake(name: str, value: str) -> str:
    """What is wrong with the value of a known option, in words; empty if nothing is."""
    option = OPTIONS[name]
    match option.kind:
        case "enum" if value not in option.values:
            return f"is not one of {', '.join(option.values)}"
        case "bool" if value not in ("true", "false"):
            return "is not true or false"
        case "int" if not _within(value, option):
            return f"is not a whole number from {option.low} to {option.high}"
        case "ints" if not all(_within(part, option) for part in value.split(",")):
            return f"is not a list of whole numbers from {option.low} to {option.high}, such as 4,8"
        case "file" if not _FILE.fullmatch(value):
            return "is not the path of a file among the weights"
        case _:
            return ""


def triton_pair_mistakes(given: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Options that contradict each other: the name, what is wrong, what to do."""
    settings = {name: option.default for name, option in OPTIONS.items()} | dict(given)
    most = int(settings["max_batch_size"])
    larger = [size for size in numbers(settings["preferred_batch_size"]) if size > most]
    if larger:
        what = f"{larger[0]} is more than max_batch_size ({most})"
        yield "preferred_batch_size", what, "use smaller sizes, or raise max_batch_size"
    for name in ("preferred_batch_size", "max_queue_delay_microseconds"):
        if name in given and settings["dynamic_batching"] == "false":
            yield name, "has no effect with dynamic_batching: false", "remove one of the two"
    if "gpus" in given and settings["instance_kind"] == "KIND_CPU":
        yield "gpus", "has no effect with instance_kind: KIND_CPU", "remove one of the two"
    if "dtype" in given and settings["backend"] != "python":
        yield (
            "dtype",
            f"has no effect with backend: {settings['backend']}",
            "it is fixed when the model is compiled",
        )
    if "token_type" in given and settings["backend"] == "python":
        yield "token_type", "has no effect with backend: python", "remove it"


def numbers(value: str) -> tuple[int, ...]:
    """Of a value of kind `ints`."""
    return tuple(int(part) for part in value.split(",")) if value else ()


def _within(value: str, option: TritonOption) -> bool:
    return re.fullmatch(r" *[0-9]{1,9} *", value) is not None and option.low <= int(value) <= option.high
