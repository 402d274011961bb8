"""SageMaker: account, image, instances, delivery of the weights, time-outs."""

from __future__ import annotations

from lmi_deploy.core.facts import Facts
from lmi_deploy.core.place import SageMakerPlace
from lmi_deploy.core.recipe import Recipe
from lmi_deploy.core.spec import WeightsSpec
from lmi_deploy.errors import Unresolvable


def place_of(recipe: Recipe, facts: Facts, weights: WeightsSpec) -> SageMakerPlace:
    """Raises Unresolvable, with the arithmetic shown."""
    raise Unresolvable("endpoint.target: sagemaker is not built yet", hint="set endpoint: {target: local}")
