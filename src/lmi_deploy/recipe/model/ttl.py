"""How long a deployment may live: the recipe's `ttl`, and what `lmi extend` takes."""

from __future__ import annotations

from typing import Final

from lmi_deploy.recipe.model.scalar_types import seconds

TTL: Final = seconds(60, 90 * 86400)
