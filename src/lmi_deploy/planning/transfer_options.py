"""The way of the weights' transfer, for keys that the recipe leaves out."""

from __future__ import annotations

from lmi_deploy.domain.recipe_weights_keys import Weights
from lmi_deploy.domain.weights import Travel


def transfer_options(weights: Weights) -> Travel:
    """The recipe's own value, else the default."""
    return Travel(
        via=weights.via or "stream",
        engine=weights.engine or "auto",
        memory=(weights.memory_mb or 0) * 1_000_000,
    )
