"""Where a spec runs, every choice about it made; one file a place."""

from __future__ import annotations

from lmi_deploy.core.facts import Facts
from lmi_deploy.core.place import Place
from lmi_deploy.core.recipe import Recipe
from lmi_deploy.core.spec import WeightsSpec
from lmi_deploy.decide.places import local, sagemaker
from lmi_deploy.decide.places.timeouts import loading_timeout

__all__ = ["loading_timeout", "place_of"]


def place_of(recipe: Recipe, facts: Facts, weights: WeightsSpec) -> Place:
    """Raises Unresolvable."""
    match recipe.endpoint.target:
        case "local":
            return local.place_of(recipe, facts, weights)
        case "sagemaker":
            return sagemaker.place_of(recipe, facts, weights)
