"""Choose the machine for so many bytes of weights, with the calculation in words: a first guess for `lmi init`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lmi_deploy.domain.byte_units import GIB

_DEVICES = (
    ("ml.g5.xlarge", 1, 24),
    ("ml.g5.12xlarge", 4, 24),
    ("ml.g5.48xlarge", 8, 24),
    ("ml.p4d.24xlarge", 8, 40),
    ("ml.p5.48xlarge", 8, 80),
    ("ml.p5en.48xlarge", 8, 141),
)
"""Instance type, GPUs, GiB of each: NVIDIA A10G, A100, H100 and H200, cheapest first."""
_HEADROOM = 1.3
"""Room beside the weights for KV cache and activations."""
_USABLE = 0.9
"""The share of a GPU's memory that vLLM uses by default."""
_LOADED_PER_SECOND = 100 * 1000 * 1000
"""Bytes: a careful figure for reading weights from a disk into memory."""


@dataclass(frozen=True, slots=True)
class Hardware:
    instance: str
    degree: int
    why: str


def hardware_for(weights: int, heads: object) -> Hardware:
    """The first instance whose GPUs have room for the weights and for the work; the largest if none has."""
    need = weights / GIB * _HEADROOM
    for instance, gpus, memory in _DEVICES:
        degree = _degree(need, gpus, memory, heads)
        if degree:
            why = (
                f"{weights / GIB:.1f} GiB x {_HEADROOM} = {need:.1f} GiB, on {degree} of {gpus} GPUs with "
                f"{memory} GiB each, {_USABLE:.0%} of it usable"
            )
            return Hardware(instance, degree, why)
    instance, gpus, memory = _DEVICES[-1]
    return Hardware(
        instance, gpus, f"{need:.1f} GiB are more than {gpus} GPUs of {memory} GiB hold: quantize it"
    )


def startup_for(weights: int | None) -> tuple[int, str]:
    """Seconds for container_startup, and why: whole minutes, between 5 and 60 of them."""
    if weights is None:
        return 300, "300 s, as the size of the weights is not known yet."
    load = math.ceil(weights / _LOADED_PER_SECOND)
    startup = min(3600, max(300, math.ceil((load + 120) / 60) * 60))
    return (
        startup,
        f"{load} s to load {weights / GIB:.2f} GiB at 100 MB/s and 120 s to start; at least 300 s.",
    )


def _degree(need: float, gpus: int, memory: int, heads: object) -> int:
    """The smallest power of two of these GPUs that has enough memory and divides the attention heads; 0 if there is
    none.
    """
    for degree in (1, 2, 4, 8):
        fits = degree <= gpus and need <= degree * memory * _USABLE
        if fits and (not isinstance(heads, int) or heads % degree == 0):
            return degree
    return 0
