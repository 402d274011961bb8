"""What replaces keys of a recipe: an overlay that is selected by name, then each `--set key=value`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmi_deploy.domain.deployment_names import NAME, name_error
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.model.field_types import KeyGroup, MappingField
from lmi_deploy.recipe.model.key_readers import RECIPE
from lmi_deploy.recipe.name_suggestions import suggestion_text
from lmi_deploy.recipe.reader import ParsedFields, RecipeReader
from lmi_deploy.recipe.yaml.composer import Composer
from lmi_deploy.recipe.yaml.source import decode
from lmi_deploy.recipe.yaml.tree import (
    InvalidNode,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    SourcePosition,
    describe,
    merged,
    quoted,
)

MOST_OVERLAYS = 50


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
        if self._chosen in known:
            table = merged(self._base, known[self._chosen].value)
            return table if isinstance(table, MappingNode) else self._base
        place = self._entry.place if self._entry else SourcePosition(self._base.place.origin, 1, 1)
        hints = (suggestion_text(self._chosen, [*known]), f"use one of {', '.join(known)}")
        hint = "; ".join(filter(None, hints)) if known else "the recipe has none"
        problems.append(place.problem("overlays", missing_overlay(self._chosen), hint))
        return self._base

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
            yield partial.problem("name", what, "shorten the name or the overlay's name")

    def _known(self, problems: list[Problem]) -> dict[str, MappingEntry]:
        value = self._entry.value if self._entry else None
        if isinstance(value, MappingNode):
            if len(value.entries) <= MOST_OVERLAYS:
                return value.entries
            hint = f"use at most {MOST_OVERLAYS}"
            problems.append(value.place.problem("overlays", f"{len(value.entries)} overlays", hint))
        elif value is not None and not _is_blank(value):
            what = f"expected a mapping, not {describe(value)}"
            hint = "write the overlay's name, and under it the keys that it changes"
            problems.append(value.place.problem("overlays", what, hint))
        return {}

    def _problems(self, name: str, entry: MappingEntry) -> list[Problem]:
        path, value = f"overlays.{name[:60]}", entry.value
        if not NAME.fullmatch(name):
            hint = "use lower case letters, digits and dashes"
            return [entry.place.problem(path, "not a valid end of a deployment name", hint)]
        if isinstance(value, MappingNode):
            if name == self._chosen:
                return []  # it is read with the rest of the recipe
            reader = RecipeReader(value.place, prefix=f"{path}.", is_complete=False)
            reader.read(value)
            return reader.problems
        if _is_blank(value):
            return []
        return [value.place.problem(path, f"expected a mapping, not {describe(value)}")]


def missing_overlay(name: str) -> str:
    """What is said of a chosen overlay that the recipe does not have."""
    return f"no such overlay: {quoted(name)}"


def _is_blank(node: Node) -> bool:
    """A key without a value, or with one that was refused already."""
    return isinstance(node, InvalidNode) or (isinstance(node, ScalarNode) and node.blank)


def apply_overrides(sets: Sequence[str], table: MappingNode, problems: list[Problem]) -> MappingNode:
    """The recipe with every `--set` applied in order; errors in their form are added to `problems`."""
    for number, text in enumerate(sets, start=1):
        start = SourcePosition(f"--set:{number}", 0, 1)
        left, equals, right = text.partition("=")
        parts = left.strip().split(".")
        if not equals or not all(parts) or not left.isprintable():
            problems.append(start.problem("", "not KEY=VALUE", "write for example endpoint.port=8080"))
        elif parts[0] == "overlays":
            hint = "set the key itself: --set overrides the overlay"
            problems.append(start.problem("", "choose an overlay with --overlay", hint))
        else:
            path = _keys(parts)
            if not any(part.startswith("x-") for part in path):
                value = _value(right, start.origin, len(left) + 1, problems)
                table = _put(table, path, value, start) if value else table
    return table


def _keys(parts: list[str]) -> list[str]:
    """The dotted path as keys; below free pairs the dots belong to the key itself."""
    group = RECIPE
    for index, part in enumerate(parts):
        key = group.find(part)
        if key is not None and isinstance(key.shape, MappingField):
            rest = ".".join(parts[index + 1 :])
            return [*parts[: index + 1], rest] if rest else parts
        if key is None or not isinstance(key.shape, KeyGroup):
            break
        group = key.shape
    return parts


def _value(text: str, origin: str, step: int, problems: list[Problem]) -> Node | None:
    source = decode(text, origin, step=step)
    if isinstance(source, Problem):
        problems.append(source)
        return None
    composer = Composer(source)
    node = composer.compose()
    problems += composer.problems
    if node is None and not composer.problems:
        return ScalarNode(source.place(0, 0), "", plain=True)
    return node


def _put(table: MappingNode, path: list[str], value: Node, place: SourcePosition) -> MappingNode:
    """The table with `value` at `path`; the value there is replaced, its neighbours stay."""
    name, *rest = path
    if rest:
        below = table.entries.get(name)
        group = below.value if below and isinstance(below.value, MappingNode) else MappingNode(place, {})
        value = _put(group, rest, value, place)
        place = below.place if below else place
    return MappingNode(table.place, {**table.entries, name: MappingEntry(place, value)})
