"""Over how many devices the model is cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmi_deploy.catalog.instances import chosen, devices
from lmi_deploy.domain.recipe import Recipe
from lmi_deploy.errors import Unresolvable


def degree_of(recipe: Recipe, config: Mapping[str, Any]) -> int:
    """The recipe's, else all devices of the instance; on this machine one. Raises Unresolvable if the model's heads
    cannot be divided.
    """
    counts = [devices(machine) or 1 for machine in chosen(recipe)]
    most = min(counts, default=1)
    degree = recipe.tensor_parallel_degree or most
    heads = _heads(config)
    if recipe.engine == "vllm" and heads and heads % degree:
        fits = max(number for number in range(1, min(most, heads, degree) + 1) if heads % number == 0)
        raise Unresolvable(
            f"tensor_parallel_degree: {degree} does not divide the {heads} attention heads of the model",
            hint=f"write tensor_parallel_degree: {fits}",
        )
    return degree


def _heads(config: Mapping[str, Any]) -> int | None:
    """Of the model, or of the language part of one that sees or hears as well."""
    inner = config.get("text_config")
    for table in (config, inner if isinstance(inner, dict) else {}):
        heads = table.get("num_attention_heads")
        if type(heads) is int and heads > 0:
            return heads
    return None
