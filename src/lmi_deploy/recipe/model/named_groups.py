"""The type of a key with names of the user's own, each with a group of keys: `endpoint.autoscaling.scheduled`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from lmi_deploy.recipe.model.field_types import (
    INVALID,
    InvalidMarker,
    KeyGroup,
    Report,
    all_valid,
    below,
    named_entries,
)
from lmi_deploy.recipe.model.scalar_type import Schema
from lmi_deploy.recipe.name_suggestions import nearest
from lmi_deploy.recipe.yaml.tree import (
    InvalidNode,
    MappingEntry,
    MappingNode,
    Node,
    SourcePosition,
    describe,
    quoted,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class GroupsField:
    """No group in it contains a group."""

    group: KeyGroup
    most: int
    label: ClassVar = "names, each with a group, see below"
    collects: ClassVar = True

    @property
    def _names(self) -> list[str]:
        return [key.name for key in self.group.keys]

    def read(self, node: Node, notify: Report) -> Any:
        named = named_entries(node, self.most, notify)
        if named is None:
            return INVALID
        return all_valid([self._named(name, entry, notify) for name, entry in named.items()])

    def _named(self, name: str, entry: MappingEntry, notify: Report) -> Any:
        if not _NAME.fullmatch(name):
            hint = "use at most 63 letters, digits, dashes and underscores, beginning with a letter or digit"
            notify(entry.place, f"{quoted(name)} is not a valid name", hint, name[:80])
            return INVALID
        report = below(name, notify)
        if isinstance(entry.value, MappingNode):
            return self._group(name, entry.value, report)
        if not isinstance(entry.value, InvalidNode):
            what = f"expected a mapping, not {describe(entry.value)}"
            report(entry.place, what, f"with {', '.join(self._names)}", "")
        return INVALID

    def _group(self, name: str, node: MappingNode, notify: Report) -> Any:
        values = {key: self._value(key, entry, notify) for key, entry in node.entries.items()}
        # A mistyped key is not reported as missing as well: one mistake, one message.
        meant = {nearest(key, self._names) for key in node.entries if self.group.find(key) is None}
        for key in self.group.keys:
            if key.required and key.name not in values and key.name not in meant:
                values[key.name] = INVALID
                notify(node.place, "is missing", f"such as {key.name}: {key.example}", key.name)
        if any(value is INVALID for value in values.values()):
            return INVALID
        return self.group.dataclass_type(name=name, **values)

    def _value(self, name: str, entry: MappingEntry, notify: Report) -> Any:
        key = self.group.find(name)
        if key is not None:
            assert not isinstance(key.shape, KeyGroup)
            mistakes: list[str] = []

            def report(place: SourcePosition, what: str, hint: str, suffix: str) -> None:
                mistakes.append(what)
                below(name, notify)(place, what, hint, suffix)

            value = key.shape.read(entry.value, report)
            # A mapping without its invalid pairs is not what was written: checks of it would report a second mistake.
            return INVALID if mistakes else value
        return self._unknown(name, entry, notify)

    def _unknown(self, name: str, entry: MappingEntry, notify: Report) -> InvalidMarker:
        near = nearest(name, self._names)
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(self._names)}"
        notify(entry.place, "unknown key", hint, name[:80])
        return INVALID

    def schema(self) -> Schema:
        group: Schema = {
            "type": "object",
            "properties": {
                key.name: {**key.shape.schema(), "description": key.doc}
                for key in self.group.keys
                if not isinstance(key.shape, KeyGroup)
            },
            "required": [key.name for key in self.group.keys if key.required],
            "additionalProperties": False,
            "patternProperties": {"^x-": {}},
        }
        return {"type": "object", "additionalProperties": group}
