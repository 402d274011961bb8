"""From the tree of what was written to typed values: every field on its own, every mistake once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lmi_deploy.errors.problem import Problem
from lmi_deploy.recipe.model.field_types import BAD, Group, Key, Later
from lmi_deploy.recipe.suggestions import nearest
from lmi_deploy.recipe.yaml.tree import Entry, Node, Place, Scalar, Spoiled, Table, named

MOST_PROBLEMS = 100
"""More than anybody reads; the rest is counted."""


def _whatever(path: str) -> str:
    """Nobody looks."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What a recipe is read for."""

    deploying: bool = True
    """A deployment is made from it, so what is not built yet is refused; else only its weights are moved."""
    unread: Callable[[str], str] = _whatever
    """Why a file of the user's, by its path as the recipe has it, cannot be read; empty where it can."""


DEPLOYING = Purpose()
MOVING = Purpose(deploying=False)


@dataclass(frozen=True, slots=True)
class Found:
    """A value that was read, and where its key stands."""

    value: Any
    place: Place


@dataclass(slots=True)
class Partial:
    """What could be read: by dotted path. A path in `broken` was written, but its value is no good."""

    root: Place
    purpose: Purpose = DEPLOYING
    found: dict[str, Found] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    pairs: dict[str, Entry] = field(default_factory=dict)
    """The user's own keys, such as `options.dtype`."""

    def value(self, path: str, default: Any = None) -> Any:
        known = self.found.get(path)
        return default if known is None else known.value

    def place(self, path: str) -> Place:
        """Where `path` stands, else the group that would hold it, else the recipe's start."""
        while path:
            if path in self.found:
                return self.found[path].place
            if path in self.pairs:
                return self.pairs[path].place
            path = path.rpartition(".")[0]
        return self.root

    def value_place(self, path: str) -> Place:
        """Where the value of one of the user's own keys stands."""
        return self.pairs[path].value.place if path in self.pairs else self.place(path)

    def sound(self, *paths: str) -> bool:
        """Whether none of these was complained about already."""
        return not any(path in self.broken for path in paths)


class Reader:
    """Walks one tree along the declaration."""

    def __init__(
        self,
        declaration: Group,
        root: Place,
        *,
        prefix: str = "",
        whole: bool = True,
        purpose: Purpose = DEPLOYING,
    ) -> None:
        self.partial = Partial(root, purpose)
        self.problems: list[Problem] = []
        self._declaration = declaration
        self._prefix = prefix
        self._whole = whole

    def read(self, table: Table) -> None:
        """`whole` says that required keys must be there, and that what is not built yet is refused."""
        self._group(self._declaration, table, "")

    def _group(self, group: Group, table: Table, path: str) -> None:
        for name, entry in table.entries.items():
            key = group.find(name)
            if key is None:
                self._unknown(group, name, entry, path)
            else:
                self._key(key, entry, f"{path}{name}")
        if self._whole:
            self._missing(group, table, path)

    def _key(self, key: Key, entry: Entry, path: str) -> None:
        before = len(self.problems)
        if isinstance(key.shape, Group):
            self._nested(key.shape, entry, path)
        elif not (_bare(entry.value) and key.shape.collects):
            self._leaf(key, entry, path)
        if (
            self._whole
            and key.later
            and self._waits(key.later)
            and path in self.partial.found
            and len(self.problems) == before
        ):
            self._later(key.later, entry, path)

    def _waits(self, later: Later) -> bool:
        return later.always or self.partial.purpose.deploying

    def _leaf(self, key: Key, entry: Entry, path: str) -> None:
        assert not isinstance(key.shape, Group)

        def tell(place: Place, what: str, hint: str, suffix: str) -> None:
            self.tell(place, f"{path}.{suffix}" if suffix else path, what, hint)

        value = key.shape.read(entry.value, tell)
        if value is BAD:
            self.partial.broken.add(path)
        else:
            self.partial.found[path] = Found(value, entry.place)
            if isinstance(entry.value, Table):
                self.partial.pairs.update(
                    {f"{path}.{name}": pair for name, pair in entry.value.entries.items()}
                )

    def _nested(self, group: Group, entry: Entry, path: str) -> None:
        if isinstance(entry.value, Table):
            self.partial.found[path] = Found(None, entry.place)
            self._group(group, entry.value, f"{path}.")
        elif not _bare(entry.value):
            self.partial.broken.add(path)
            if not isinstance(entry.value, Spoiled):
                keys = ", ".join(key.name for key in group.keys)
                self.tell(
                    entry.value.place, path, f"a mapping is wanted, not {named(entry.value)}", f"with {keys}"
                )

    def _later(self, later: Later, entry: Entry, path: str) -> None:
        value = self.partial.value(path)
        if later.covers(value):
            what = f"not yet: {value}" if later.values else "not yet"
            self.partial.broken.add(path)
            self.tell(entry.place, path, f"{what} ({later.reason})", "")

    def _missing(self, group: Group, table: Table, path: str) -> None:
        for key in group.keys:
            here = f"{path}{key.name}"
            if key.required and key.name not in table.entries and here not in self.partial.broken:
                place = self.partial.place(path.rstrip("."))
                self.partial.broken.add(here)
                self.tell(place, here, "is missing", f"such as {key.name}: {key.example}")

    def _unknown(self, group: Group, name: str, entry: Entry, path: str) -> None:
        meant = self._meant(group, name, path) if len(self.problems) < MOST_PROBLEMS else ""
        hint = f"did you mean {meant.removeprefix(path)}?" if meant else ""
        if not hint and len(group.keys) <= 8:
            hint = f"known here: {', '.join(key.name for key in group.keys)}"
        # What was meant is not missing as well: one mistake, one message.
        self.partial.broken.add(meant)
        self.tell(entry.place, f"{path}{name[:80]}", "unknown key", hint)

    def _meant(self, group: Group, name: str, path: str) -> str:
        """The path of the key that the user had in mind, here or in another group; empty if that is anybody's guess."""
        near = nearest(name, [*(key.name for key in group.keys), *(group.also if self._whole else ())])
        if near:
            return f"{path}{near}"
        return next((path for path in _paths(self._declaration, "") if path.rpartition(".")[2] == name), "")

    def tell(self, place: Place, path: str, what: str, hint: str) -> None:
        self.problems.append(
            Problem(
                origin=place.origin,
                line=place.line,
                column=place.column,
                key=self._prefix + path,
                what=what,
                hint=hint,
            )
        )


def _bare(node: Node) -> bool:
    """A key with nothing after it, as where all that it held was commented out."""
    return isinstance(node, Scalar) and node.plain and not node.text


def _paths(group: Group, path: str) -> Iterator[str]:
    for key in group.keys:
        yield f"{path}{key.name}"
        if isinstance(key.shape, Group):
            yield from _paths(key.shape, f"{path}{key.name}.")
