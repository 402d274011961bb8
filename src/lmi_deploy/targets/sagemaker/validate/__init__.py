"""What SageMaker would refuse, or never start successfully, detected in the recipe alone.

One list of rules serves `lmi validate`, which shows each problem at its line, and `resolve`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmi_deploy.domain.image_build import repository_name
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe.checks.issue import Issue
from lmi_deploy.targets.sagemaker.validate import (
    alarms,
    autoscaling,
    candidate,
    components,
    compute_capability,
    counts,
    devices,
    images,
    network_isolation,
    output_addresses,
    regions,
    transfer_job,
    update_policy,
)

__all__ = ["Issue", "validate"]

_RULES = (
    *devices.RULES,
    *images.RULES,
    *network_isolation.RULES,
    *autoscaling.RULES,
    *alarms.RULES,
    *counts.RULES,
    *output_addresses.RULES,
    *regions.RULES,
    *transfer_job.RULES,
    *update_policy.RULES,
    *components.RULES,
    *candidate.RULES,
    *compute_capability.RULES,
)


def validate(recipe: Recipe) -> Iterator[Issue]:
    """Every reason not to deploy this recipe on SageMaker."""
    recipe = _with_image(recipe)
    for rule in _RULES:
        yield from rule(recipe)


def _with_image(recipe: Recipe) -> Recipe:
    """An image that lmi will build is the user's own, in the account and region of the endpoint."""
    if recipe.container.build is None or recipe.container.image is not None:
        return recipe
    registry = f"{'0' * 12}.dkr.ecr.{recipe.endpoint.region or 'us-east-1'}.amazonaws.com"
    image = f"{registry}/{repository_name(recipe.name)}:latest"
    return replace(recipe, container=replace(recipe.container, image=image))
