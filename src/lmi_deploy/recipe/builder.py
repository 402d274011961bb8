"""From what was read to the nouns of core."""

from __future__ import annotations

from typing import Any

from lmi_deploy.recipe.model.field_types import Group
from lmi_deploy.recipe.reader import Partial


def build(group: Group, partial: Partial, path: str = "") -> Any:
    """The noun of `group`, filled with what was read; a key that is absent keeps core's default."""
    filled: dict[str, Any] = {}
    for key in group.keys:
        here = f"{path}{key.name}"
        if here not in partial.found:
            continue
        nested = isinstance(key.shape, Group)
        filled[key.name] = build(key.shape, partial, f"{here}.") if nested else partial.value(here)  # type: ignore[arg-type]
    return group.noun(**filled)


def draft(group: Group, partial: Partial, path: str = "") -> Any:
    """The same from a recipe with mistakes: what is bad or missing is as if left out. None: a group that cannot be.

    Only for cross-checks, which ask `Partial.sound` before they complain.
    """
    filled: dict[str, Any] = {}
    for key in group.keys:
        here = f"{path}{key.name}"
        if here in partial.found and here not in partial.broken:
            nested = isinstance(key.shape, Group)
            filled[key.name] = draft(key.shape, partial, f"{here}.") if nested else partial.value(here)  # type: ignore[arg-type]
    missing = [key.name for key in group.keys if key.required and key.name not in filled]
    if missing and path:
        return None
    return group.noun(**dict.fromkeys(missing, ""), **filled)
