"""Over how many devices, and whether the model can be cut that often."""

from __future__ import annotations

from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.devices import Devices
from lmi_deploy.sizing.sizing_request import SizedEngine, SizingRequest
from lmi_deploy.sizing.tensors import CannotTell


class NotDivisible(CannotTell):
    """The engine refuses this degree."""


def whole_degree(request: SizingRequest, devices: Devices, pipeline: int, shape: Architecture) -> int:
    """The requested degree, else as many devices as the model can be split over. NotDivisible if there are fewer."""
    existing = devices.count * devices.cores
    requested = request.degree
    if requested is None and request.text("tensor_parallel_degree") not in ("", "max", "auto"):
        requested = request.whole("tensor_parallel_degree")
    if devices.kind == "cpu":
        return 1
    free = max(1, existing // pipeline)
    degree = requested or (best_degree(shape, free) if request.engine in ("vllm", "tensorrt-llm") else free)
    if degree * pipeline > existing:
        where = devices.instance or f"{devices.count} x {devices.name}"
        what = f"degree {degree}" + (f" x {pipeline} pipeline stages" if pipeline > 1 else "")
        raise NotDivisible(f"{what} needs more devices than {where} has: {existing}")
    return degree


def require_divisible(shape: Architecture, engine: SizedEngine, degree: int) -> None:
    """As vllm 0.11.0 checks it (config/model.py verify_with_parallel_config; layers/linear.py divide)."""
    # optimum-neuron pads query heads up to a multiple of the degree; a 70B with 64 heads runs on 24 cores.
    if engine in ("accelerate", "neuronx") or degree == 1 or shape.family.kind == "encoder":
        return
    if shape.heads % degree:
        raise NotDivisible(
            f"degree {degree} does not divide the {shape.heads} attention heads; use {best_degree(shape, degree)}"
        )
    if shape.kv_heads % degree and degree % shape.kv_heads and not shape.latent and engine == "vllm":
        raise NotDivisible(
            f"degree {degree} and {shape.kv_heads} key/value heads do not divide each other;"
            f" use {best_degree(shape, degree)}"
        )


def best_degree(shape: Architecture, most: int) -> int:
    """The largest degree up to `most` that the model can be cut by."""
    return max(
        number
        for number in range(1, most + 1)
        if shape.heads % number == 0
        and (shape.kv_heads % number == 0 or number % shape.kv_heads == 0)
        and shape.intermediate % number == 0
    )
