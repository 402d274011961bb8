"""What may stand under a key: one value, a list, one or a list, free pairs, or a group of further keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from lmi_deploy.catalog import limits
from lmi_deploy.recipe.model.scalar_types import NUMERIC_TEXT, Schema, Word, Wrong
from lmi_deploy.recipe.yaml.tree import Items, Node, Place, Scalar, Spoiled, Table, named

MOST_ITEMS = 100
LONGEST = 32_768
"""Characters of one value: far beyond any that a server takes."""


class Bad:
    """Stands for a value that was complained about."""


BAD = Bad()
Tell = Callable[[Place, str, str, str], None]
"""Place, what, hint, and what to add to the key's path."""


class Shape(Protocol):
    @property
    def label(self) -> str: ...

    @property
    def collects(self) -> bool:
        """Whether nothing at all is as good as an empty list or mapping."""

    def read(self, node: Node, tell: Tell) -> Any:
        """The typed value, or BAD after the reason was told; each mistake once."""

    def schema(self) -> Schema: ...


@dataclass(frozen=True, slots=True)
class One:
    """One value."""

    word: Word

    @property
    def label(self) -> str:
        return self.word.label

    @property
    def collects(self) -> bool:
        return False

    def read(self, node: Node, tell: Tell) -> Any:
        return _word(node, self.word, tell)

    def schema(self) -> Schema:
        return self.word.schema()


@dataclass(frozen=True, slots=True)
class Many:
    """A list of values; `limit` names SageMaker's bounds on how many there are."""

    word: Word
    limit: str = ""

    @property
    def label(self) -> str:
        return f"list: {self.word.label}"

    @property
    def collects(self) -> bool:
        return True

    def read(self, node: Node, tell: Tell) -> Any:
        if not isinstance(node, Items):
            return _unless_spoiled(node, tell, f"a list is wanted, not {named(node)}")
        low, high = limits.bounds(self.limit) if self.limit else (0, MOST_ITEMS)
        if not low <= len(node.items) <= high:
            tell(node.place, f"{len(node.items)} items", f"from {low} to {high} are allowed", "")
            return BAD
        return _all([_word(item, self.word, tell) for item in node.items])

    def schema(self) -> Schema:
        return {"type": "array", "items": self.word.schema()}


@dataclass(frozen=True, slots=True)
class OneOrMany:
    """One value, or a list of them."""

    word: Word
    most: int

    @property
    def label(self) -> str:
        return f"{self.word.label}, or a list of at most {self.most}"

    @property
    def collects(self) -> bool:
        return False

    def read(self, node: Node, tell: Tell) -> Any:
        if isinstance(node, Items) and len(node.items) > self.most:
            tell(node.place, f"{len(node.items)} items", f"at most {self.most} are allowed", "")
            return BAD
        if isinstance(node, Items):
            return _all([_word(item, self.word, tell) for item in node.items])
        value = _word(node, self.word, tell)
        return value if value is BAD else (value,)

    def schema(self) -> Schema:
        return {"anyOf": [self.word.schema(), {"type": "array", "items": self.word.schema()}]}


@dataclass(frozen=True, slots=True)
class PairsOf:
    """Keys of the user's own with one value each, kept in order and as written."""

    label: str
    key: Callable[[str], str] = lambda key: key
    value: Callable[[str], str] = lambda value: value
    limit: str = ""

    @property
    def collects(self) -> bool:
        return True

    def read(self, node: Node, tell: Tell) -> Any:
        if not isinstance(node, Table):
            return _unless_spoiled(node, tell, f"a mapping is wanted, not {named(node)}")
        most = limits.bounds(self.limit)[1] if self.limit else MOST_ITEMS
        if len(node.entries) > most:
            tell(node.place, f"{len(node.entries)} keys", f"at most {most} are allowed", "")
            return BAD
        pairs = [self._pair(key, entry.place, entry.value, tell) for key, entry in node.entries.items()]
        # The good ones go on to the cross-checks, so that one bad pair does not hide the mistakes of the others.
        return tuple(pair for pair in pairs if pair is not BAD)

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": NUMERIC_TEXT}

    def _pair(self, key: str, place: Place, node: Node, tell: Tell) -> Any:
        try:
            self.key(key)
        except Wrong as exc:
            tell(place, exc.what, exc.hint, key)
            return BAD
        if not isinstance(node, Scalar):
            return _unless_spoiled(node, tell, f"one value is wanted, not {named(node)}", key)
        if node.plain and not node.text:
            tell(place, "has no value", 'write "" for an empty text', key)
            return BAD
        if _endless(node, tell, key):
            return BAD
        try:
            return key, self.value(node.text)
        except Wrong as exc:
            tell(node.place, exc.what, exc.hint, key)
            return BAD


@dataclass(frozen=True, slots=True)
class Later:
    """Declared and checked, but not built yet: the whole key, or only some `values` of it (or what starts so).

    `always`: in every use of a recipe; else only where a deployment is made from it.
    """

    reason: str
    values: tuple[str, ...] = ()
    always: bool = False

    def covers(self, value: object) -> bool:
        if not self.values:
            return True
        return any(value == v or (v.endswith("://") and str(value).startswith(v)) for v in self.values)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the recipe: its name and shape, what it means, and how far it is built."""

    name: str
    shape: Shape | Group
    doc: str
    example: str = ""
    required: bool = False
    later: Later | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Keys that stand together; `noun` is the dataclass of core that they fill."""

    noun: type[Any]
    keys: tuple[Key, ...]
    also: tuple[str, ...] = ()
    """Names that are keys too, but are read elsewhere."""

    def find(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)


def _word(node: Node, word: Word, tell: Tell) -> Any:
    if not isinstance(node, Scalar):
        return _unless_spoiled(node, tell, f"one value is wanted, not {named(node)}")
    if node.blank:
        tell(node.place, "has no value", "leave the key out, or give it one", "")
        return BAD
    if _endless(node, tell):
        return BAD
    try:
        return word.read(node.text)
    except Wrong as exc:
        tell(node.place, exc.what, exc.hint, "")
        return BAD


def _endless(node: Scalar, tell: Tell, suffix: str = "") -> bool:
    """Refused before any rule looks at it, so that none has to be quick on a megabyte."""
    if len(node.text) > LONGEST:
        tell(node.place, f"{len(node.text)} characters", f"at most {LONGEST} are allowed", suffix)
    return len(node.text) > LONGEST


def _all(values: list[Any]) -> Any:
    return BAD if any(value is BAD for value in values) else tuple(values)


def _unless_spoiled(node: Node, tell: Tell, what: str, suffix: str = "") -> Bad:
    if not isinstance(node, Spoiled):
        tell(node.place, what, "", suffix)
    return BAD
