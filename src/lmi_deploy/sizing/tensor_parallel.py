"""Over how many devices the model is cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmi_deploy.catalog.instances import chosen, devices
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Unresolvable
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.tensor_parallel_degree import best_degree
from lmi_deploy.sizing.tensors import CannotTell


def degree_of(recipe: Recipe, config: Mapping[str, Any]) -> int:
    """The recipe's, else as many devices of the instance as the model can be cut by; on this machine one. Raises
    Unresolvable if the model's heads cannot be divided by the recipe's.

    If the model does not fit on as many devices, it does not fit on fewer.
    """
    counts = [devices(machine) or 1 for machine in chosen(recipe)]
    most = min(counts, default=1)
    if recipe.tensor_parallel_degree is None:
        return _largest(config, most) if recipe.engine == "vllm" else most
    degree = recipe.tensor_parallel_degree
    heads = _heads(config)
    if recipe.engine == "vllm" and heads and heads % degree:
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


def _heads(config: Mapping[str, Any]) -> int | None:
    """Of the model, or of the language part of one that sees or hears as well."""
    inner = config.get("text_config")
    for table in (config, inner if isinstance(inner, dict) else {}):
        heads = table.get("num_attention_heads")
        if type(heads) is int and heads > 0:
            return heads
    return None
