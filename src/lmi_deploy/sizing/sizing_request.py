"""The question about a model: engine, version, degree, length, sequences, and the options that change memory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.catalog.images import image, versions
from lmi_deploy.catalog.server_version import server_version
from lmi_deploy.domain.djl_serving import IMAGE_FAMILY, SERVER_VERSION
from lmi_deploy.sizing.tensors import CannotTell

SizedEngine = Literal[
    "vllm",
    "tensorrt-llm",
    "accelerate",
    "neuronx",
    "deepspeed",
    "fastertransformer",
    "sglang",
    "tei",
    "neuron",
]
ENGINES: Final[dict[str, SizedEngine]] = {
    "vllm": "vllm",
    "lmi-dist": "vllm",
    "tensorrt-llm": "tensorrt-llm",
    "accelerate": "accelerate",
    "neuronx": "neuronx",
    "deepspeed": "deepspeed",
    "fastertransformer": "fastertransformer",
    "vllm-server": "vllm",
    "sglang": "sglang",
    "tei": "tei",
    "neuron": "neuron",
}
ON_NEURON: Final = ("neuronx", "neuron")
"""Engines whose devices are NeuronCores; those of `neuron` are Inferentia 1's."""
INFERENTIA_1: Final = "AWS Inferentia"
LMI_VLLM: Final = {number: vllm_arguments.number(number) for number in vllm_arguments.images()}
"""The vLLM of an LMI image."""
_FIRST_LMI_SERVER: Final = 19
"""DJLServing 0.19 is the first with large models."""
_NEWEST_LMI: Final = max(LMI_VLLM)
NEWEST_VLLM: Final = LMI_VLLM[_NEWEST_LMI]
_SHORT: Final[dict[str, str]] = {
    "max_rolling_batch_size": "max_num_seqs",
    "tensor_parallel_size": "tensor_parallel_degree",
    "pipeline_parallel_size": "pipeline_parallel_degree",
    "quantization": "quantize",
    "tp_size": "tensor_parallel_degree",
    "pp_size": "pipeline_parallel_degree",
    "context_length": "max_model_len",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingRequest:
    """`options` has the keys of serving.properties without `option.`; None leaves a choice to the engine's defaults."""

    engine: SizedEngine = "vllm"
    vllm: tuple[int, int] = NEWEST_VLLM
    """Version of vLLM, if it is the engine."""
    lmi: bool = True
    """Run by LMI, whose defaults differ from the engine's own."""
    degree: int | None = None
    context: int | None = None
    sequences: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def number(self, key: str, *, least: float = 0, most: float = 2**40) -> float | None:
        """An option as a number; CannotTell if it is not a number, or out of range."""
        text = self.text(key)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise CannotTell(f"option {key}: {text!r} is not a number") from None
        if not least <= value <= most:
            raise CannotTell(f"option {key}: {text} is not between {least:g} and {most:g}")
        return value

    def whole(self, key: str, *, least: int = 1) -> int | None:
        value = self.number(key, least=least)
        if value is not None and value != int(value):
            raise CannotTell(f"option {key}: {self.text(key)!r} is not a whole number")
        return None if value is None else int(value)

    def text(self, key: str) -> str:
        return self.options.get(key, "").strip()

    def is_on(self, key: str) -> bool:
        return self.text(key).lower() in ("true", "1", "yes")

    def table(self, key: str) -> Mapping[str, object]:
        """An option that contains JSON; empty if it is not given."""
        text = self.text(key)
        if not text:
            return {}
        try:
            value = json.loads(text)
        except ValueError:
            raise CannotTell(f"option {key}: not JSON") from None
        return value if isinstance(value, dict) else {}


def normalized(options: Mapping[str, str]) -> dict[str, str]:
    """One spelling of each option: without `option.`, and the engine's name where LMI has its own."""
    plain = {key.removeprefix("option.").lower().replace("-", "_"): value for key, value in options.items()}
    return {**{_SHORT[key]: value for key, value in plain.items() if key in _SHORT}, **plain}


def engine_version(text: str | None) -> tuple[tuple[int, int], bool]:
    """vLLM's version and whether LMI runs it, from a version of DJLServing (`0.36.0`, `0.36.0-lmi20`), an LMI
    (`lmi16`) or of vLLM itself (`vllm-0.11.0`; below 0.19 also without the name, as LMI begins there). CannotTell for
    anything else."""
    if not text:
        return NEWEST_VLLM, True
    own = re.fullmatch(r"(vllm[- ]?)?v?(\d+)\.(\d+)[\w.+]*", text.lower())
    if own and (own[1] or int(own[3]) < _FIRST_LMI_SERVER):
        return (int(own[2]), int(own[3])), False
    tagged = re.search(r"lmi-?(\d+)", text.lower())
    server = re.match(r"(\d+)\.(\d+)(\.|$|-)", text)
    lmi = int(tagged[1]) if tagged else _lmi_of(int(server[1]), int(server[2])) if server else 0
    version = LMI_VLLM.get(min(lmi, _NEWEST_LMI))
    if version is None:
        raise CannotTell(
            f"version {text}: lmi does not know its vLLM version; write for example {SERVER_VERSION}-lmi27 or "
            "vllm-0.11.0"
        )
    return version, True


def _lmi_of(*server: int) -> int:
    """The number of the LMI that AWS's newest image of a DJLServing carries; 0: none is known."""
    known: dict[tuple[int, ...], int] = {}
    for version in versions(IMAGE_FAMILY):
        number, lmi = server_version(image(IMAGE_FAMILY, version, "us-east-1").tag, None)
        known[tuple(map(int, number.split(".")[:2]))] = int(lmi)
    return known.get(server, _NEWEST_LMI if server > min(known) else 0)
