"""A YAML document as a tree of what was written: text with its place, nothing interpreted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: line and column from 1; line 0 in a `--set`, which has columns only."""

    origin: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value: the text as written, after YAML's quoting. `plain` is False where it was quoted or a block."""

    place: Place
    text: str
    plain: bool

    @property
    def blank(self) -> bool:
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping: `place` is the key's."""

    place: Place
    value: Node


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping, in the order of the file. `x-` keys are left out already."""

    place: Place
    entries: dict[str, Entry]


@dataclass(frozen=True, slots=True)
class Spoiled:
    """Stands where something was refused already, so that nobody complains about it again."""

    place: Place


Node = Scalar | Items | Table | Spoiled


def named(node: Node) -> str:
    """The node in the words of a message."""
    match node:
        case Scalar():
            return quoted(node.text)
        case Items():
            return "a list"
        case _:
            return "a mapping"


def quoted(text: str) -> str:
    """The text as a message shows it: one line, not endless."""
    shown = text if len(text) <= 60 else text[:57] + "..."
    return repr(shown) if shown.isprintable() else ascii(shown)


def merged(base: Node, over: Node) -> Node:
    """`over` laid on `base`: mappings key by key at every depth, anything else replaced."""
    if not (isinstance(base, Table) and isinstance(over, Table)):
        return over
    entries = dict(base.entries)
    for key, entry in over.entries.items():
        below = entries.get(key)
        value = merged(below.value, entry.value) if below else entry.value
        entries[key] = Entry(entry.place, value)
    return Table(base.place, entries)
