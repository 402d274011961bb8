"""The lifetime of a deployment: the recipe's `ttl`, and the argument of `lmi extend`."""

from __future__ import annotations

from typing import Final

from lmi_deploy.recipe.model.scalar_types import seconds

TTL: Final = seconds(60, 90 * 86400)
