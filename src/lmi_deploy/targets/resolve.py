"""The target of a spec, with every choice made; one file per target."""

from __future__ import annotations

from lmi_deploy.domain.facts import Facts
from lmi_deploy.domain.recipe import Recipe
from lmi_deploy.domain.spec import WeightsSpec
from lmi_deploy.domain.target_spec import Place
from lmi_deploy.targets.local import resolve as local_resolve
from lmi_deploy.targets.sagemaker import resolve as sagemaker_resolve


def place_of(recipe: Recipe, facts: Facts, weights: WeightsSpec) -> Place:
    """Raises Unresolvable."""
    match recipe.endpoint.target:
        case "local":
            return local_resolve.place_of(recipe, facts, weights)
        case "sagemaker":
            return sagemaker_resolve.place_of(recipe, facts, weights)
