"""`--set key=value`: one key overridden from the command line, its value YAML."""

from __future__ import annotations

from collections.abc import Sequence

from lmi_deploy.errors.problem import Problem
from lmi_deploy.recipe.model.field_types import Group, MappingField
from lmi_deploy.recipe.yaml.composer import Composer
from lmi_deploy.recipe.yaml.source import decode
from lmi_deploy.recipe.yaml.tree import MappingEntry, MappingNode, Node, ScalarNode, SourcePosition


def applied(
    sets: Sequence[str], table: MappingNode, declaration: Group, problems: list[Problem]
) -> MappingNode:
    """The recipe with every `--set` applied in order; errors in their form are added to `problems`."""
    for number, text in enumerate(sets, start=1):
        origin = f"--set:{number}"
        path, error = _path(text, origin, declaration)
        if error is not None:
            problems.append(error)
        elif not any(part.startswith("x-") for part in path):
            value = _value(text, origin, problems)
            table = _put(table, path, value, SourcePosition(origin, 0, 1)) if value else table
    return table


def _path(text: str, origin: str, declaration: Group) -> tuple[list[str], Problem | None]:
    left, equals, _ = text.partition("=")
    parts = left.strip().split(".")
    if not equals or not all(parts) or not left.isprintable():
        return [], _problem(origin, "not KEY=VALUE", "write for example endpoint.port=8080")
    if parts[0] == "overlays":
        return [], _problem(
            origin, "choose an overlay with --overlay", "set the key itself: --set overrides the overlay"
        )
    return _keys(parts, declaration), None


def _keys(parts: list[str], declaration: Group) -> list[str]:
    """The dotted path as keys; below free pairs the dots belong to the key itself."""
    group = declaration
    for index, part in enumerate(parts):
        key = group.find(part)
        if key is None:
            break
        if isinstance(key.shape, MappingField):
            rest = ".".join(parts[index + 1 :])
            return [*parts[: index + 1], rest] if rest else parts
        if not isinstance(key.shape, Group):
            break
        group = key.shape
    return parts


def _value(text: str, origin: str, problems: list[Problem]) -> Node | None:
    left, _, right = text.partition("=")
    source = decode(right, origin, step=len(left) + 1)
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


def _problem(origin: str, what: str, hint: str) -> Problem:
    return Problem(origin=origin, line=0, column=1, key="", what=what, hint=hint)
