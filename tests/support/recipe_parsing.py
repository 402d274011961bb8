"""Parse a recipe as the command line does: with the checks of its target."""

from __future__ import annotations

from collections.abc import Sequence

from lmi_deploy.composition.targets import recipe_issues
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe import parse as recipe_parse
from lmi_deploy.recipe.reader import Purpose

CHECKED = Purpose(target_issues=recipe_issues)
MOVING = Purpose(deploying=False)


def parse(
    text: bytes | str,
    origin: str,
    *,
    overlay: str | None = None,
    sets: Sequence[str] = (),
    purpose: Purpose = CHECKED,
) -> Recipe:
    return recipe_parse.parse(text, origin, overlay=overlay, sets=sets, purpose=purpose)
