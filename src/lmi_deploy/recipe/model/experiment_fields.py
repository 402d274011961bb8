"""The types of `bench.variants` and `bench.matrix`: the user's own names, each with a variant or with values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from lmi_deploy.domain.recipe_bench_keys import BenchVariant
from lmi_deploy.domain.recipe_key_types import OneLine
from lmi_deploy.domain.recipe_keys import RECIPE_SUFFIXES
from lmi_deploy.recipe.model.field_types import (
    INVALID,
    FieldType,
    MappingField,
    Report,
    ScalarField,
    ScalarOrListField,
    all_valid,
    below,
    named_entries,
)
from lmi_deploy.recipe.model.scalar_type import NUMERIC_TEXT, Schema
from lmi_deploy.recipe.model.scalar_types import scalar_type
from lmi_deploy.recipe.model.user_mappings import PairRules
from lmi_deploy.recipe.yaml.tree import (
    MappingEntry,
    MappingNode,
    Node,
    quoted,
)

MOST_VALUES = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TEXT = ScalarField(scalar_type(OneLine("text")))
_GROUP: dict[str, FieldType] = {
    "recipe": _TEXT,
    "overlay": _TEXT,
    "set": MappingField(PairRules(joined=True)),
    "factors": MappingField(PairRules()),
}


@dataclass(frozen=True, slots=True)
class VariantsField:
    """Variants of an experiment by name."""

    most: int
    label: ClassVar = "names, each with an overlay, a recipe (`.yaml`), or a group"
    collects: ClassVar = True

    def read(self, node: Node, notify: Report) -> Any:
        return _by_name(node, notify, self.most, _variant)

    def schema(self) -> Schema:
        group = {
            "type": "object",
            "properties": {name: kind.schema() for name, kind in _GROUP.items()},
            "additionalProperties": False,
        }
        return {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, group]}}


@dataclass(frozen=True, slots=True)
class ValuesField:
    """One value or several, by name."""

    most: int
    label: ClassVar = "names, each with a value or a list of values"
    collects: ClassVar = True

    def read(self, node: Node, notify: Report) -> Any:
        return _by_name(node, notify, self.most, _values)

    def schema(self) -> Schema:
        several = {"type": "array", "items": NUMERIC_TEXT}
        return {"type": "object", "additionalProperties": {"anyOf": [NUMERIC_TEXT, several]}}


def _by_name(node: Node, notify: Report, most: int, read: Any) -> Any:
    named = named_entries(node, most, notify)
    if named is None:
        return INVALID
    return all_valid([_named(name, entry, notify, read) for name, entry in named.items()])


def _named(name: str, entry: MappingEntry, notify: Report, read: Any) -> Any:
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, dots, dashes and underscores"
        notify(entry.place, f"{quoted(name)} is not a valid name", hint, name[:80])
        return INVALID
    return read(name, entry.value, below(name, notify))


def _variant(name: str, node: Node, notify: Report) -> Any:
    if not isinstance(node, MappingNode):
        text = _TEXT.read(node, notify)
        if text is INVALID:
            return INVALID
        key = "recipe" if text.endswith(RECIPE_SUFFIXES) else "overlay"
        return BenchVariant(name=name, **{key: text})
    unknown = [key for key in node.entries if key not in _GROUP]
    for key in unknown:
        notify(node.entries[key].place, "unknown key", f"use one of {', '.join(_GROUP)}", key[:80])
    values = {
        key: kind.read(node.entries[key].value, below(key, notify))
        for key, kind in _GROUP.items()
        if key in node.entries
    }
    if unknown or any(value is INVALID for value in values.values()):
        return INVALID
    return BenchVariant(
        name=name, **{"sets" if key == "set" else key: value for key, value in values.items()}
    )


def _values(name: str, node: Node, notify: Report) -> Any:
    values = ScalarOrListField(scalar_type(OneLine("value")), MOST_VALUES).read(node, notify)
    if values is INVALID:
        return INVALID
    if len({*values}) < max(len(values), 1):
        notify(node.place, "no value, or one value twice", "name each value once", "")
        return INVALID
    return name, values
