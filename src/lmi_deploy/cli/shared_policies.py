"""`--shared PREFIX`: policies for every deployment of a team."""

from __future__ import annotations

import click

from lmi_deploy.domain.deployment_names import prefix_error
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import UsageRefused

shared_option = click.option(
    "--shared", metavar="PREFIX", help="Cover all deployments like RECIPE whose names begin with PREFIX."
)


def shared_prefix(recipe: Recipe, shared: str | None) -> str:
    """The checked prefix; empty for the recipe's deployment alone. UsageRefused if it needs nothing of AWS."""
    if recipe.endpoint.target != "sagemaker":
        raise UsageRefused(
            f"endpoint.target: {recipe.endpoint.target} needs no AWS permissions",
            hint="use a recipe with target sagemaker",
        )
    if shared is not None and (error := prefix_error(shared, recipe.name)):
        raise UsageRefused(f"--shared {shared}: {error}", hint="give a prefix of the deployments' names")
    return shared or ""
