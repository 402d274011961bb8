"""`overlays`: keys that replace those of the recipe when an overlay is selected by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from lmi_deploy.domain.naming import NAME, name_error
from lmi_deploy.domain.recipe import Recipe
from lmi_deploy.errors.problem import Problem
from lmi_deploy.recipe.model.declaration import RECIPE
from lmi_deploy.recipe.reader import ParsedFields, RecipeReader
from lmi_deploy.recipe.suggestions import suggestion_text
from lmi_deploy.recipe.yaml.tree import (
    InvalidNode,
    MappingEntry,
    MappingNode,
    ScalarNode,
    SourcePosition,
    describe,
    merged,
    quoted,
)

MOST = 50


class Overlays:
    """The overlays of one recipe, and the one that was chosen."""

    def __init__(self, table: MappingNode, chosen: str | None) -> None:
        self._base = MappingNode(table.place, {k: v for k, v in table.entries.items() if k != "overlays"})
        self._entry = table.entries.get("overlays")
        self._chosen = chosen

    def merged(self, problems: list[Problem]) -> MappingNode:
        """The recipe with the selected overlay applied; errors in any overlay are added to `problems`."""
        known = self._known(problems)
        for name, entry in known.items():
            problems += self._problems(name, entry)
        if self._chosen is None:
            return self._base
        over = known.get(self._chosen)
        if over is None:
            problems.append(self._unknown(list(known)))
            return self._base
        table = merged(self._base, over.value)
        return table if isinstance(table, MappingNode) else self._base

    def name_problems(self, partial: ParsedFields) -> Iterator[Problem]:
        """The name with the overlay's must be a name still."""
        name = partial.value("name")
        if self._chosen is None or name is None or name_error(self._chosen):
            return
        error = name_error(f"{name}-{self._chosen}")
        if error:
            what = (
                f"{name}-{self._chosen}, the name with the overlay, is not a valid deployment name: {error}"
            )
            yield _problem(partial.place("name"), "name", what, "shorten the name or the overlay's name")

    def named(self, recipe: Recipe, origin: str) -> Recipe:
        """The recipe under its overlay's name."""
        name = f"{recipe.name}-{self._chosen}" if self._chosen else recipe.name
        return dataclasses.replace(recipe, name=name, overlay=self._chosen, origin=origin)

    def _known(self, problems: list[Problem]) -> dict[str, MappingEntry]:
        value = self._entry.value if self._entry else None
        if value is None or isinstance(value, InvalidNode):
            return {}
        if isinstance(value, MappingNode) and len(value.entries) > MOST:
            what = f"{len(value.entries)} overlays"
            problems.append(_problem(value.place, "overlays", what, f"use at most {MOST}"))
            return {}
        if isinstance(value, MappingNode):
            return value.entries
        if not (isinstance(value, ScalarNode) and value.blank):
            what = f"expected a mapping, not {describe(value)}"
            problems.append(
                _problem(
                    value.place,
                    "overlays",
                    what,
                    "write the overlay's name, and under it the keys that it changes",
                )
            )
        return {}

    def _problems(self, name: str, entry: MappingEntry) -> list[Problem]:
        path = f"overlays.{name[:60]}"
        if not NAME.fullmatch(name):
            return [
                _problem(
                    entry.place,
                    path,
                    "not a valid end of a deployment name",
                    "use lower case letters, digits and dashes",
                )
            ]
        if isinstance(entry.value, MappingNode):
            return [] if name == self._chosen else self._shape(entry.value, path)
        if isinstance(entry.value, InvalidNode) or (
            isinstance(entry.value, ScalarNode) and entry.value.blank
        ):
            return []
        return [_problem(entry.value.place, path, f"expected a mapping, not {describe(entry.value)}", "")]

    def _shape(self, table: MappingNode, path: str) -> list[Problem]:
        reader = RecipeReader(RECIPE, table.place, prefix=f"{path}.", is_complete=False)
        reader.read(table)
        return reader.problems

    def _unknown(self, known: list[str]) -> Problem:
        chosen = self._chosen or ""
        place = self._entry.place if self._entry else SourcePosition(self._base.place.origin, 1, 1)
        local = suggestion_text(chosen, known)
        hint = "; ".join(part for part in (local, f"use one of {', '.join(known)}") if part)
        return _problem(
            place, "overlays", f"no such overlay: {quoted(chosen)}", hint if known else "the recipe has none"
        )


def _problem(place: SourcePosition, path: str, what: str, hint: str) -> Problem:
    return Problem(origin=place.origin, line=place.line, column=place.column, key=path, what=what, hint=hint)
