"""Frozen dataclasses as JSON values and back, by their own type hints. Bytes travel as base64."""

from __future__ import annotations

import base64
import dataclasses
import types
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def dump(value: Any) -> Any:
    """Plain JSON values: dataclasses by field name, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: dump(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): dump(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [dump(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def load(kind: type[T], value: Any) -> T:
    """The `kind` that `dump` wrote; ValueError where the value is of another form. Unknown keys are passed over."""
    return cast(T, _load(kind, value))


def _load(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _load_fields(kind, value)
    if origin is tuple:
        return _load_tuple(get_args(kind), value)
    if origin is dict:
        return {key: _load(get_args(kind)[1], item) for key, item in _expect(dict, value).items()}
    if origin in (Union, types.UnionType):
        return _load_one_of(get_args(kind), value)
    if origin is Literal:
        return _expect_one_of(get_args(kind), value)
    if kind is bytes:
        return base64.b64decode(_expect(str, value), validate=True)
    return _expect(kind, value)


def _load_one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    """The first of a union that the value can be: dataclasses differ by the fields that they must have."""
    if value is None and type(None) in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not type(None))
    for kind in others:
        try:
            return _load(kind, value)
        except ValueError:
            continue
    return _load(last, value)


def _load_fields(kind: type[Any], value: Any) -> Any:
    found = _expect(dict, value)
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.name in found]
    try:
        return kind(**{name: _load(hints[name], found[name]) for name in names})
    except TypeError as exc:
        raise ValueError(f"{kind.__name__}: {exc}") from exc


def _load_tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    items = _expect(list, value)
    if kinds[1:] == (...,):
        return tuple(_load(kinds[0], item) for item in items)
    return tuple(_load(kind, item) for kind, item in zip(kinds, items, strict=True))


def _expect(kind: Any, value: Any) -> Any:
    # JSON does not tell 1 from 1.0, and Python's bool is an int.
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _expect_one_of(choices: tuple[Any, ...], value: Any) -> Any:
    if value not in choices:
        raise ValueError(f"expected one of {choices}, found {value!r}")
    return value
