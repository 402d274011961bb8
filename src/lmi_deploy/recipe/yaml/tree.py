"""A YAML document as a tree of nodes: text with its position, not interpreted."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.errors.recipe_problem import Problem


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The position of a node: line and column from 1; line 0 in a `--set`, which has columns only."""

    origin: str
    line: int
    column: int

    def problem(self, key: str, what: str, hint: str = "") -> Problem:
        """A mistake at this position."""
        return Problem(origin=self.origin, line=self.line, column=self.column, key=key, what=what, hint=hint)


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """One value: the text as written, after YAML's unquoting. `plain` is False for a quoted value or a block; `start`
    is the position of the first character of a literal block (`|`).
    """

    place: SourcePosition
    text: str
    plain: bool
    start: SourcePosition | None = None

    def place_at(self, offset: int) -> SourcePosition:
        """The position of a character of a literal block; of any other value its own position."""
        if self.start is None:
            return self.place
        before = self.text[:offset]
        line, column = before.count("\n"), offset - before.rfind("\n") - 1
        return SourcePosition(self.start.origin, self.start.line + line, self.start.column + column)

    @property
    def blank(self) -> bool:
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    place: SourcePosition
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """One key of a mapping: `place` is the key's."""

    place: SourcePosition
    value: Node


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping, in the order of the file. `x-` keys are left out already."""

    place: SourcePosition
    entries: dict[str, MappingEntry]


@dataclass(frozen=True, slots=True)
class InvalidNode:
    """In place of a value that was already refused, so that it is not reported again."""

    place: SourcePosition


Node = ScalarNode | SequenceNode | MappingNode | InvalidNode


def describe(node: Node) -> str:
    """The node in the words of a message."""
    match node:
        case ScalarNode():
            return quoted(node.text)
        case SequenceNode():
            return "a list"
        case _:
            return "a mapping"


def quoted(text: str) -> str:
    """The text as a message shows it: one line, not endless."""
    shown = text if len(text) <= 60 else text[:57] + "..."
    return repr(shown) if shown.isprintable() else ascii(shown)


def merged(base: Node, over: Node) -> Node:
    """`over` merged into `base`: mappings key by key at every depth, anything else replaced."""
    if not (isinstance(base, MappingNode) and isinstance(over, MappingNode)):
        return over
    entries = dict(base.entries)
    for key, entry in over.entries.items():
        below = entries.get(key)
        value = merged(below.value, entry.value) if below else entry.value
        entries[key] = MappingEntry(entry.place, value)
    return MappingNode(base.place, entries)
