"""Frozen dataclasses as JSON values and back, by their own type hints. Bytes travel as base64."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import types
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from lmi_deploy.domain.settings_digest import is_instance_of_dataclass, shown_fields

T = TypeVar("T")
Loader = Callable[[Any, str], Any]
"""Of a JSON value and its position."""
_WORDS: dict[Any, str] = {
    **{dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing (null)"},
    **{int: "a whole number", float: "a number"},
}


def dump(value: Any) -> Any:
    """Plain JSON values: dataclasses by field name, without those that `shown_fields` leaves out; tuples as lists."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if is_instance_of_dataclass(value):
        return {name: dump(item) for name, item in shown_fields(value)}
    if isinstance(value, dict):
        return {str(key): dump(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [dump(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def lines_text(fields: Mapping[str, str]) -> str:
    """A JSON object with a line per field, from each field's JSON. With `indent`, json does without its C code, and is
    slow for a record that is written for every action, or a manifest of thousands of files.
    """
    return "{\n " + ",\n ".join(f'"{name}": {text}' for name, text in fields.items()) + "\n}\n"


def load(kind: type[T], value: Any) -> T:
    """The `kind` that `dump` wrote; ValueError if the value has another form, with its position and the error in
    plain words. Unknown keys are skipped.
    """
    return cast(T, _loader(kind)(value, ""))


def _loader(kind: Any) -> Loader:
    """Made once per field of a dataclass: a record is read before and after each action."""
    origin, kinds = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value, at: value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return partial(_load_fields, kind)
    if origin is tuple:
        if kinds[1:] == (...,):
            return partial(_load_items, _loader(kinds[0]))
        return partial(_load_tuple, tuple(map(_loader, kinds)))
    if origin is dict:
        return partial(_load_dict, _loader(kinds[1]))
    if origin in (Union, types.UnionType):
        others = tuple(_loader(one) for one in kinds if one is not type(None))
        return partial(_load_one_of, others, is_optional=type(None) in kinds)
    if origin is Literal:
        return partial(_expect_one_of, kinds)
    return _load_bytes if kind is bytes else partial(_expect, kind)


def _load_one_of(loaders: tuple[Loader, ...], value: Any, at: str, *, is_optional: bool) -> Any:
    """The first of a union that the value can be: dataclasses differ by the fields that they must have."""
    if value is None and is_optional:
        return None
    *others, last = loaders
    for one in others:
        try:
            return one(value, at)
        except ValueError:
            continue
    return last(value, at)


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, Loader, bool], ...]:
    """Each field's name, its type, how it is read, and whether it must be there."""
    hints = get_type_hints(kind)
    return tuple(
        (
            field.name,
            hints[field.name],
            _loader(hints[field.name]),
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    )


def _load_fields(kind: Any, value: Any, at: str) -> Any:
    found = _expect(dict, value, at)
    fields = {}
    for name, hint, load_item, is_needed in _fields(kind):
        if name in found:
            item = found[name]
            # Most are words and numbers.
            fields[name] = item if type(item) is hint else load_item(item, f"{at}.{name}")
        elif is_needed:
            raise ValueError(f"{_place(f'{at}.{name}')} is missing")
    return kind(**fields)


def _load_dict(load_item: Loader, value: Any, at: str) -> dict[str, Any]:
    return {key: load_item(item, f"{at}.{key}") for key, item in _expect(dict, value, at).items()}


def _load_items(load_item: Loader, value: Any, at: str) -> tuple[Any, ...]:
    items = _expect(list, value, at)
    return tuple(load_item(item, f"{at}[{number}]") for number, item in enumerate(items))


def _load_tuple(loaders: tuple[Loader, ...], value: Any, at: str) -> tuple[Any, ...]:
    items = _expect(list, value, at)
    if len(items) != len(loaders):
        raise ValueError(f"{_place(at)} has {len(items)} items, not {len(loaders)}")
    return tuple(
        load_item(item, f"{at}[{number}]")
        for number, (load_item, item) in enumerate(zip(loaders, items, strict=True))
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
