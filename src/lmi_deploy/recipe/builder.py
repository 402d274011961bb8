"""From parsed fields to the dataclasses of `domain`."""

from __future__ import annotations

from typing import Any

from lmi_deploy.recipe.model.field_types import Group
from lmi_deploy.recipe.reader import ParsedFields


def build(group: Group, partial: ParsedFields, path: str = "") -> Any:
    """The dataclass of `group`, filled with the parsed values; an absent key gets the dataclass's default."""
    filled: dict[str, Any] = {}
    for key in group.keys:
        local = f"{path}{key.name}"
        if local not in partial.found:
            continue
        nested = isinstance(key.shape, Group)
        filled[key.name] = build(key.shape, partial, f"{local}.") if nested else partial.value(local)  # type: ignore[arg-type]
    return group.dataclass_type(**filled)


def build_partial(group: Group, partial: ParsedFields, path: str = "") -> Any:
    """The same from a recipe with errors: invalid or missing values count as left out. None: the group cannot be
    built.

    Only for cross-checks, which call `ParsedFields.sound` before they report.
    """
    filled: dict[str, Any] = {}
    for key in group.keys:
        local = f"{path}{key.name}"
        if local in partial.found and local not in partial.is_invalid:
            nested = isinstance(key.shape, Group)
            filled[key.name] = (
                build_partial(key.shape, partial, f"{local}.")  # type: ignore[arg-type]
                if nested
                else partial.value(local)
            )
    missing = [key.name for key in group.keys if key.required and key.name not in filled]
    if missing and path:
        return None
    return group.dataclass_type(**dict.fromkeys(missing, ""), **filled)
