"""`overlays`: keys that are laid over the recipe when one of them is chosen by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from lmi_deploy.domain.naming import NAME, name_mistake
from lmi_deploy.domain.recipe import Recipe
from lmi_deploy.errors.problem import Problem
from lmi_deploy.recipe.model.declaration import RECIPE
from lmi_deploy.recipe.reader import Partial, Reader
from lmi_deploy.recipe.suggestions import guess
from lmi_deploy.recipe.yaml.tree import Entry, Place, Scalar, Spoiled, Table, merged, named, quoted

MOST = 50


class Overlays:
    """The overlays of one recipe, and the one that was chosen."""

    def __init__(self, table: Table, chosen: str | None) -> None:
        self._base = Table(table.place, {k: v for k, v in table.entries.items() if k != "overlays"})
        self._entry = table.entries.get("overlays")
        self._chosen = chosen

    def laid(self, problems: list[Problem]) -> Table:
        """The recipe with the chosen overlay laid on; what is wrong in any overlay goes to `problems`."""
        known = self._known(problems)
        for name, entry in known.items():
            problems += self._mistakes(name, entry)
        if self._chosen is None:
            return self._base
        over = known.get(self._chosen)
        if over is None:
            problems.append(self._unknown(list(known)))
            return self._base
        table = merged(self._base, over.value)
        return table if isinstance(table, Table) else self._base

    def name_problems(self, partial: Partial) -> Iterator[Problem]:
        """The name with the overlay's must be a name still."""
        name = partial.value("name")
        if self._chosen is None or name is None or name_mistake(self._chosen):
            return
        mistake = name_mistake(f"{name}-{self._chosen}")
        if mistake:
            what = f"{name}-{self._chosen}, as the overlay makes it, cannot be a deployment's name: {mistake}"
            yield _problem(partial.place("name"), "name", what, "shorten one of the two")

    def named(self, recipe: Recipe, origin: str) -> Recipe:
        """The recipe under its overlay's name."""
        name = f"{recipe.name}-{self._chosen}" if self._chosen else recipe.name
        return dataclasses.replace(recipe, name=name, overlay=self._chosen, origin=origin)

    def _known(self, problems: list[Problem]) -> dict[str, Entry]:
        value = self._entry.value if self._entry else None
        if value is None or isinstance(value, Spoiled):
            return {}
        if isinstance(value, Table) and len(value.entries) > MOST:
            what = f"{len(value.entries)} overlays"
            problems.append(_problem(value.place, "overlays", what, f"at most {MOST} are allowed"))
            return {}
        if isinstance(value, Table):
            return value.entries
        if not (isinstance(value, Scalar) and value.blank):
            what = f"a mapping is wanted, not {named(value)}"
            problems.append(
                _problem(value.place, "overlays", what, "from an overlay's name to the keys it changes")
            )
        return {}

    def _mistakes(self, name: str, entry: Entry) -> list[Problem]:
        path = f"overlays.{name[:60]}"
        if not NAME.fullmatch(name):
            return [
                _problem(
                    entry.place, path, "cannot end a deployment's name", "lower case letters, digits, dashes"
                )
            ]
        if isinstance(entry.value, Table):
            return [] if name == self._chosen else self._shape(entry.value, path)
        if isinstance(entry.value, Spoiled) or (isinstance(entry.value, Scalar) and entry.value.blank):
            return []
        return [_problem(entry.value.place, path, f"a mapping is wanted, not {named(entry.value)}", "")]

    def _shape(self, table: Table, path: str) -> list[Problem]:
        reader = Reader(RECIPE, table.place, prefix=f"{path}.", whole=False)
        reader.read(table)
        return reader.problems

    def _unknown(self, known: list[str]) -> Problem:
        chosen = self._chosen or ""
        place = self._entry.place if self._entry else Place(self._base.place.origin, 1, 1)
        near = guess(chosen, known)
        hint = "; ".join(part for part in (near, f"there are {', '.join(known)}") if part)
        return _problem(
            place, "overlays", f"no overlay {quoted(chosen)}", hint if known else "the recipe has none"
        )


def _problem(place: Place, path: str, what: str, hint: str) -> Problem:
    return Problem(origin=place.origin, line=place.line, column=place.column, key=path, what=what, hint=hint)
