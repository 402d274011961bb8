"""JSON Schemas of declared types: dataclasses, TypedDicts, unions, literals, lists and mappings."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TYPES: Final[dict[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
Schema = dict[str, Any]


class TypeSchemas:
    """Schemas that share `definitions`, one for each class by its name.

    `closed`: an object has exactly the declared fields. Otherwise it may have more, and may lack those with a default.
    """

    def __init__(self, *, closed: bool) -> None:
        self._closed = closed
        self._classes: dict[str, type] = {}
        self.definitions: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        origin, arguments = get_origin(kind), get_args(kind)
        if _is_declared(kind):
            return self._reference(kind)
        if kind is Any:
            return {}
        if origin is Annotated:
            return self.of(arguments[0])
        if origin is Literal:
            return {"enum": list(arguments)}
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return {"enum": [member.value for member in kind]}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        if origin in (dict, Mapping):
            return self._mapping(*arguments)
        if origin in (list, Sequence):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is tuple:
            return self._array(arguments)
        return {"type": _TYPES[kind]}

    def fields(self, *kinds: type) -> Schema:
        """One object with the fields of all these classes, in this order."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for kind in kinds:
            for name, type_of_field, always in self._fields(kind):
                properties[name] = self.of(type_of_field)
                if always:
                    required.append(name)
        closed = {"additionalProperties": False} if self._closed else {}
        return {"type": "object", "properties": properties, "required": required, **closed}

    def _reference(self, kind: type) -> Schema:
        name = kind.__name__
        if self._classes.setdefault(name, kind) is not kind:
            raise ValueError(f"two classes have the name {name}: {kind.__module__} has one of them")
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = {**description_of(kind), **self.fields(kind)}
        return {"$ref": f"#/$defs/{name}"}

    def _fields(self, kind: type) -> Iterator[tuple[str, Any, bool]]:
        """Name, type, and whether the field is always there."""
        hints = _hints(kind)
        if is_typeddict(kind):
            for name, hint in hints.items():
                optional = get_origin(hint) is NotRequired
                yield name, get_args(hint)[0] if optional else hint, not optional
            return
        for field in dataclasses.fields(kind):
            has_default = (
                field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            )
            may_lack = field.metadata.get("added") if self._closed else has_default
            yield field.name, hints[field.name], not may_lack

    def _mapping(self, key: Any, value: Any) -> Schema:
        names = {"propertyNames": self.of(key)} if get_origin(key) is Literal else {}
        return {"type": "object", **names, "additionalProperties": self.of(value)}

    def _array(self, arguments: tuple[Any, ...]) -> Schema:
        if arguments[1:] == (...,):
            return {"type": "array", "items": self.of(arguments[0])}
        items = [self.of(each) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def description_of(kind: type) -> Schema:
    """The docstring, without what `dataclass` writes where there is none."""
    text = " ".join((kind.__doc__ or "").split())
    return {} if not text or text.startswith(f"{kind.__name__}(") else {"description": text}


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Looked up once per class: its hints are text, which is evaluated each time."""
    return get_type_hints(kind, include_extras=True)


def _is_declared(kind: Any) -> bool:
    return is_typeddict(kind) or (dataclasses.is_dataclass(kind) and isinstance(kind, type))
