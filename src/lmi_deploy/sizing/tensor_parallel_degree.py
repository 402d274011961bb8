"""The tensor-parallel degree: over how many devices a model is cut, and whether it can be cut that often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.catalog.instances import NEURON_DEGREES, chosen, device_count
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Unresolvable
from lmi_deploy.sizing.architecture import Architecture, read_architecture
from lmi_deploy.sizing.devices import Devices
from lmi_deploy.sizing.neuron_pipeline import pipeline_cores
from lmi_deploy.sizing.sizing_request import SizedEngine, SizingRequest
from lmi_deploy.sizing.synthesized_tensors import tensors_of
from lmi_deploy.sizing.tensors import CannotTell

SPLITS_HEADS: Final = (
    "vllm",
    "lmi-dist",
    "tensorrt-llm",
    "deepspeed",
    "fastertransformer",
    "vllm-server",
    "sglang",
)
"""Engines that give each device a part of every layer's attention heads; accelerate gives it whole layers."""
_ON_ONE_DEVICE: Final = ("tei",)


class NotDivisible(CannotTell):
    """The engine refuses this degree."""


def whole_degree(request: SizingRequest, devices: Devices, pipeline: int, shape: Architecture) -> int:
    """The requested degree, else as many devices as the model can be split over. NotDivisible if there are fewer."""
    existing = devices.count * devices.cores
    requested = request.degree
    if requested is None and request.text("tensor_parallel_degree") not in ("", "max", "auto"):
        requested = request.whole("tensor_parallel_degree")
    if devices.kind == "cpu" or request.engine in _ON_ONE_DEVICE:
        return 1
    if request.engine == "neuron" and request.text("layout") != "pipeline":
        return 1
    if request.engine == "neuron" and requested is None:
        return pipeline_cores(sum(tensor.items for tensor in tensors_of(shape, None)), existing).cores
    free = max(1, existing // pipeline)
    degree = requested or (best_degree(shape, free) if request.engine in SPLITS_HEADS else free)
    if degree * pipeline > existing:
        where = devices.instance or f"{devices.count} x {devices.name}"
        what = f"degree {degree}" + (f" x {pipeline} pipeline stages" if pipeline > 1 else "")
        raise NotDivisible(f"{what} needs more devices than {where} has: {existing}")
    return degree


def require_divisible(shape: Architecture, engine: SizedEngine, degree: int) -> None:
    """As vllm 0.11.0 checks it (config/model.py verify_with_parallel_config; layers/linear.py divide)."""
    # optimum-neuron pads query heads up to a multiple of the degree; a 70B with 64 heads runs on 24 cores.
    if engine in ("accelerate", "neuronx", "neuron") or degree == 1 or shape.family.kind == "encoder":
        return
    if shape.heads % degree:
        raise NotDivisible(
            f"degree {degree} does not divide the {shape.heads} attention heads; use {best_degree(shape, degree)}"
        )
    if (
        shape.kv_heads % degree
        and degree % shape.kv_heads
        and not shape.latent
        and engine in ("vllm", "sglang")
    ):
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


def degree_of(recipe: Recipe, config: Mapping[str, Any]) -> int:
    """The recipe's, else as many devices of the instance as the model can be cut by; on this machine one. Raises
    Unresolvable if the model's heads cannot be divided by the recipe's.

    If the model does not fit on as many devices, it does not fit on fewer.
    """
    if recipe.engine in _ON_ONE_DEVICE:
        if (recipe.tensor_parallel_degree or 1) > 1:
            raise Unresolvable(
                f"tensor_parallel_degree: engine {recipe.engine} runs a model on one device",
                hint="omit it; endpoint.count adds instances",
            )
        return 1
    # Triton runs copies of a model; it does not split one.
    most = 1 if recipe.engine == "triton" else device_count(recipe)
    if recipe.tensor_parallel_degree is None and recipe.engine == "neuronx":
        return _largest_on_neuron(recipe, config, most)
    if recipe.tensor_parallel_degree is None:
        return _largest(config, most) if recipe.engine in SPLITS_HEADS else most
    degree = recipe.tensor_parallel_degree
    heads = _heads(config)
    if recipe.engine in SPLITS_HEADS and heads and heads % degree:
        fits = max(number for number in range(1, min(most, heads, degree) + 1) if heads % number == 0)
        raise Unresolvable(
            f"tensor_parallel_degree: {degree} does not divide the {heads} attention heads of the model",
            hint=f"write tensor_parallel_degree: {fits}",
        )
    return degree


def _largest(config: Mapping[str, Any], most: int) -> int:
    try:
        return best_degree(read_architecture(config), most)
    except CannotTell:
        heads = _heads(config) or most
        return max(number for number in range(1, most + 1) if heads % number == 0)


def _largest_on_neuron(recipe: Recipe, config: Mapping[str, Any], most: int) -> int:
    """The largest degree that AWS lists for these NeuronCores and that divides the attention heads."""
    heads = _heads(config) or most
    listed = [set(NEURON_DEGREES.get(machine.family, ())) for machine in chosen(recipe)]
    common = set.intersection(*listed) if listed else set()
    return max((number for number in common if number <= most and heads % number == 0), default=1)


def _heads(config: Mapping[str, Any]) -> int | None:
    """Of the model, or of the language part of one that sees or hears as well."""
    inner = config.get("text_config")
    for table in (config, inner if isinstance(inner, dict) else {}):
        for key in ("num_attention_heads", "num_heads", "n_head"):
            heads = table.get(key)
            if type(heads) is int and heads > 0:
                return heads
    return None
