"""Frozen dataclasses as JSON values and back, by their own type hints. Bytes travel as base64."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import types
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from lmi_deploy.domain.settings_digest import is_absent

T = TypeVar("T")
_WORDS: dict[Any, str] = {
    **{dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing (null)"},
    **{int: "a whole number", float: "a number"},
}


def dump(value: Any) -> Any:
    """Plain JSON values: dataclasses by field name, without those that `is_absent` names; tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: dump(item) for field, item in fields if not is_absent(field, item)}
    if isinstance(value, dict):
        return {str(key): dump(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [dump(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def load(kind: type[T], value: Any) -> T:
    """The `kind` that `dump` wrote; ValueError if the value has another form, with its position and the error in
    plain words. Unknown keys are skipped.
    """
    return cast(T, _load(kind, value, ""))


def _load(kind: Any, value: Any, at: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _load_fields(kind, value, at)
    if origin is tuple:
        return _load_tuple(get_args(kind), value, at)
    if origin is dict:
        items = _expect(dict, value, at).items()
        return {key: _load(get_args(kind)[1], item, f"{at}.{key}") for key, item in items}
    if origin in (Union, types.UnionType):
        return _load_one_of(get_args(kind), value, at)
    if origin is Literal:
        return _expect_one_of(get_args(kind), value, at)
    if kind is bytes:
        return _load_bytes(value, at)
    return _expect(kind, value, at)


def _load_one_of(kinds: tuple[Any, ...], value: Any, at: str) -> Any:
    """The first of a union that the value can be: dataclasses differ by the fields that they must have."""
    if value is None and type(None) in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not type(None))
    for kind in others:
        try:
            return _load(kind, value, at)
        except ValueError:
            continue
    return _load(last, value, at)


def _load_fields(kind: type[Any], value: Any, at: str) -> Any:
    found = _expect(dict, value, at)
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    for field in fields:
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and field.name not in found:
            raise ValueError(f"{_place(f'{at}.{field.name}')} is missing")
    names = [field.name for field in fields if field.name in found]
    return kind(**{name: _load(hints[name], found[name], f"{at}.{name}") for name in names})


def _load_tuple(kinds: tuple[Any, ...], value: Any, at: str) -> tuple[Any, ...]:
    items = _expect(list, value, at)
    if kinds[1:] == (...,):
        return tuple(_load(kinds[0], item, f"{at}[{number}]") for number, item in enumerate(items))
    if len(items) != len(kinds):
        raise ValueError(f"{_place(at)} has {len(items)} items, not {len(kinds)}")
    return tuple(
        _load(kind, item, f"{at}[{number}]")
        for number, (kind, item) in enumerate(zip(kinds, items, strict=True))
    )


def _load_bytes(value: Any, at: str) -> bytes:
    try:
        return base64.b64decode(_expect(str, value, at), validate=True)
    except binascii.Error:
        raise ValueError(f"{_place(at)} is not base64") from None


def _expect(kind: Any, value: Any, at: str) -> Any:
    # JSON does not distinguish 1 from 1.0, and Python's bool is an int.
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        expected = _WORDS.get(kind, kind.__name__)
        raise ValueError(f"{_place(at)} is {_WORDS.get(type(value), type(value).__name__)}, not {expected}")
    return value


def _expect_one_of(choices: tuple[Any, ...], value: Any, at: str) -> Any:
    if value not in choices:
        raise ValueError(f"{_place(at)} is {value!r}, not one of {', '.join(map(str, choices))}")
    return value


def _place(at: str) -> str:
    return at.removeprefix(".") or "the whole"
