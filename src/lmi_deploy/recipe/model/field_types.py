"""The types of a key's value: one value, a list, one or a list, free pairs, or a group of further keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.domain.recipe_weights_keys import AdapterSource
from lmi_deploy.domain.safe_paths import case_collisions
from lmi_deploy.recipe.model.scalar_type import NUMERIC_TEXT, InvalidValue, ScalarType, Schema
from lmi_deploy.recipe.model.user_mappings import PairRules
from lmi_deploy.recipe.yaml.tree import (
    InvalidNode,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    SourcePosition,
    describe,
    quoted,
)

MOST_ITEMS = 100
_ADAPTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""A folder's name, a header's value, and no colon: `lmi proxy` writes deployment:adapter."""
LONGEST = 32_768
"""Maximum characters of one value: far beyond any that a server accepts."""


class InvalidMarker:
    """The type of the mark for a value that was already reported."""


INVALID = InvalidMarker()
Report = Callable[[SourcePosition, str, str, str], None]
"""Position, problem, hint, and what to add to the key's path."""


class FieldType(Protocol):
    @property
    def label(self) -> str: ...

    @property
    def collects(self) -> bool:
        """Whether nothing at all is as good as an empty list or mapping."""

    def read(self, node: Node, tell: Report) -> Any:
        """The typed value, or INVALID after the error was reported; each mistake once."""

    def schema(self) -> Schema: ...


@dataclass(frozen=True, slots=True)
class ScalarField:
    """One value."""

    word: ScalarType
    collects: ClassVar = False

    @property
    def label(self) -> str:
        return self.word.label

    def read(self, node: Node, notify: Report) -> Any:
        return _word(node, self.word, notify)

    def schema(self) -> Schema:
        return self.word.schema()


@dataclass(frozen=True, slots=True)
class ListField:
    """A list of values; `limit` names SageMaker's bounds on how many there are."""

    word: ScalarType
    limit: str = ""
    collects: ClassVar = True

    @property
    def label(self) -> str:
        return f"list: {self.word.label}"

    def read(self, node: Node, notify: Report) -> Any:
        if not isinstance(node, SequenceNode):
            return _unless_invalid(node, notify, f"expected a list, not {describe(node)}")
        low, high = sagemaker_limits.bounds(self.limit) if self.limit else (0, MOST_ITEMS)
        if not low <= len(node.items) <= high:
            notify(node.place, f"{len(node.items)} items", f"use {low} to {high} items", "")
            return INVALID
        return all_valid([_word(item, self.word, notify) for item in node.items])

    def schema(self) -> Schema:
        return {"type": "array", "items": self.word.schema()}


@dataclass(frozen=True, slots=True)
class ScalarOrListField:
    """One value, or a list of them."""

    word: ScalarType
    most: int
    collects: ClassVar = False

    @property
    def label(self) -> str:
        return f"{self.word.label}, or a list of at most {self.most}"

    def read(self, node: Node, notify: Report) -> Any:
        if isinstance(node, SequenceNode) and len(node.items) > self.most:
            notify(node.place, f"{len(node.items)} items", f"use at most {self.most}", "")
            return INVALID
        if isinstance(node, SequenceNode):
            return all_valid([_word(item, self.word, notify) for item in node.items])
        value = _word(node, self.word, notify)
        return value if value is INVALID else (value,)

    def schema(self) -> Schema:
        return {"anyOf": [self.word.schema(), {"type": "array", "items": self.word.schema()}]}


@dataclass(frozen=True, slots=True)
class MappingField:
    """The user's own keys with one value each, in order and as written."""

    rules: PairRules
    label: ClassVar = "pairs: name and text"
    collects: ClassVar = True

    def read(self, node: Node, notify: Report) -> Any:
        if not isinstance(node, MappingNode):
            return _unless_invalid(node, notify, f"expected a mapping, not {describe(node)}")
        most = sagemaker_limits.bounds(self.rules.limit)[1] if self.rules.limit else MOST_ITEMS
        if len(node.entries) > most:
            notify(node.place, f"{len(node.entries)} keys", f"use at most {most}", "")
            return INVALID
        pairs = [self._pair(key, entry.place, entry.value, notify) for key, entry in node.entries.items()]
        # Valid pairs are passed to the cross-checks, so that one invalid pair does not hide the mistakes of the
        # others.
        return tuple(pair for pair in pairs if pair is not INVALID)

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": NUMERIC_TEXT}

    def _pair(self, key: str, place: SourcePosition, node: Node, notify: Report) -> Any:
        try:
            self.rules.key(key)
        except InvalidValue as exc:
            notify(place, exc.what, exc.hint, key)
            return INVALID
        if not isinstance(node, ScalarNode):
            hint = self.rules.flat(key, node)
            return _unless_invalid(node, notify, f"expected one value, not {describe(node)}", key, hint)
        if node.plain and not node.text:
            notify(place, "has no value", 'write "" for an empty text', key)
            return INVALID
        if _endless(node, notify, key):
            return INVALID
        try:
            return key, self.rules.value(node.text)
        except InvalidValue as exc:
            notify(node.place, exc.what, exc.hint, key)
            return INVALID


@dataclass(frozen=True, slots=True)
class SourcesField:
    """The user's own names, each with the source of a model."""

    source: ScalarType
    revision: ScalarType
    most: int
    label: ClassVar = "names, each with a Hub id, an `s3://` prefix or a folder, or a group"
    collects: ClassVar = True

    def read(self, node: Node, notify: Report) -> Any:
        named = named_entries(node, self.most, notify)
        if named is None:
            return INVALID
        if clash := next(iter(case_collisions(named)), ()):
            what = f"{' and '.join(clash)} differ only in upper and lower case"
            notify(named[clash[-1]].place, what, "use another name for one of them", clash[-1])
            return INVALID
        return all_valid([self._source(name, entry, notify) for name, entry in named.items()])

    def _source(self, name: str, entry: MappingEntry, notify: Report) -> Any:
        if not _ADAPTER_NAME.fullmatch(name):
            hint = "use at most 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit"
            notify(entry.place, f"{quoted(name)} is not a valid name", hint, name[:80])
            return INVALID
        report = below(name, notify)
        if not isinstance(entry.value, MappingNode):
            source = _word(entry.value, self.source, report)
            return INVALID if source is INVALID else AdapterSource(name=name, source=source)
        return self._group(name, entry.value, report)

    def _group(self, name: str, node: MappingNode, notify: Report) -> Any:
        known = {"source": self.source, "revision": self.revision}
        for key in node.entries.keys() - known.keys():
            notify(node.entries[key].place, "unknown key", f"use one of {', '.join(known)}", key[:80])
        if "source" not in node.entries:
            notify(node.place, "has no source", "such as source: org/french-lora", "")
        values = {
            key: _word(node.entries[key].value, kind, notify)
            for key, kind in known.items()
            if key in node.entries
        }
        wrong = "source" not in values or node.entries.keys() - known.keys()
        if wrong or any(value is INVALID for value in values.values()):
            return INVALID
        return AdapterSource(name=name, **values)

    def schema(self) -> Schema:
        group = {
            "type": "object",
            "properties": {"source": self.source.schema(), "revision": self.revision.schema()},
            "required": ["source"],
            "additionalProperties": False,
        }
        return {"type": "object", "additionalProperties": {"anyOf": [self.source.schema(), group]}}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the recipe: its name and type, and its meaning."""

    name: str
    shape: FieldType | KeyGroup
    doc: str
    example: str
    required: bool
    default: Any
    """None: `resolve` determines it."""


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """A group of keys; `dataclass_type` is the dataclass of `domain` that they fill."""

    dataclass_type: type[Any]
    keys: tuple[Key, ...]
    also: tuple[str, ...] = ()
    """Names that are keys too, but are read elsewhere."""

    def find(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)


def _word(node: Node, scalar_type: ScalarType, notify: Report) -> Any:
    if not isinstance(node, ScalarNode):
        return _unless_invalid(node, notify, f"expected one value, not {describe(node)}")
    if node.blank:
        notify(node.place, "has no value", "remove the key, or give it a value", "")
        return INVALID
    if _endless(node, notify):
        return INVALID
    try:
        return scalar_type.read(node.text)
    except InvalidValue as exc:
        notify(node.place, exc.what, exc.hint, "")
        return INVALID


def _endless(node: ScalarNode, notify: Report, suffix: str = "") -> bool:
    """Refused before any rule looks at it, so that none has to be quick on a megabyte."""
    if len(node.text) > LONGEST:
        notify(node.place, f"{len(node.text)} characters", f"use at most {LONGEST}", suffix)
    return len(node.text) > LONGEST


def named_entries(node: Node, most: int, notify: Report) -> dict[str, MappingEntry] | None:
    """The entries of a mapping of the user's own names; None if it is none, or too large, which is reported."""
    if not isinstance(node, MappingNode):
        _unless_invalid(node, notify, f"expected a mapping, not {describe(node)}")
        return None
    if len(node.entries) > most:
        notify(node.place, f"{len(node.entries)} names", f"use at most {most}", "")
        return None
    return node.entries


def below(name: str, notify: Report) -> Report:
    """Reports what is under this key or name."""
    return lambda place, what, hint, suffix: notify(place, what, hint, f"{name}.{suffix}" if suffix else name)


def all_valid(values: list[Any]) -> Any:
    return INVALID if any(value is INVALID for value in values) else tuple(values)


def _unless_invalid(node: Node, notify: Report, what: str, suffix: str = "", hint: str = "") -> InvalidMarker:
    if not isinstance(node, InvalidNode):
        notify(node.place, what, hint, suffix)
    return INVALID
