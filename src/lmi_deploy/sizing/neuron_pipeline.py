"""How many NeuronCores of Inferentia 1 a pipeline of one model gets.

Source: aws-neuron-sdk, neuroncore-pipeline.rst: `4 * round(weights / 2e7)`, the weights as a number of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmi_deploy.catalog.instances import device_count
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Unresolvable
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.synthesized_tensors import tensors_of
from lmi_deploy.sizing.tensors import CannotTell


@dataclass(frozen=True, slots=True)
class PipelineCores:
    """`formula` is Neuron's start value; `cores` is within those of the instance."""

    cores: int
    formula: int
    parameters: int


def pipeline_cores(parameters: int, available: int) -> PipelineCores:
    """Neuron's start value, at least 1 and at most the instance's cores: it overshoots, and small models get 0."""
    formula = 4 * round(parameters / 2e7)
    return PipelineCores(max(1, min(formula, available)), formula, parameters)


def neuron_degree(recipe: Recipe, config: Mapping[str, Any]) -> int:
    """The cores of one copy of the model on engine neuron: one in layout data. Raises Unresolvable."""
    available = device_count(recipe)
    if recipe.tensor_parallel_degree is not None:
        if available and available % recipe.tensor_parallel_degree:
            raise Unresolvable(
                f"tensor_parallel_degree: {recipe.tensor_parallel_degree} does not divide the "
                f"{counted(available, 'NeuronCore')} of the instance",
                hint="use a divisor of it, and compile the model for as many cores",
            )
        return recipe.tensor_parallel_degree
    if dict(recipe.options).get("layout") != "pipeline":
        return 1
    return _computed(config, available).cores


def pipeline_notice(recipe: Recipe, config: Mapping[str, Any]) -> str:
    """How the number of cores came about, if the recipe left it to lmi; empty otherwise."""
    if recipe.engine != "neuron" or recipe.tensor_parallel_degree is not None:
        return ""
    if dict(recipe.options).get("layout") != "pipeline":
        return ""
    available = device_count(recipe)
    found = _computed(config, available)
    used = f"lmi uses {found.cores}: compile the model with --neuroncore-pipeline-cores {found.cores}"
    return (
        f"pipeline: 4 x round({found.parameters} weights / 2e7) is {found.formula} NeuronCores, the instance has "
        f"{available}; {used}"
    )


def _computed(config: Mapping[str, Any], available: int) -> PipelineCores:
    try:
        shape = read_architecture(dict(config))
        return pipeline_cores(sum(tensor.items for tensor in tensors_of(shape, None)), available)
    except CannotTell as reason:
        raise Unresolvable(
            f"tensor_parallel_degree: auto needs the number of weights, but {reason}",
            hint="write the number of cores that the model was compiled for",
        ) from None
