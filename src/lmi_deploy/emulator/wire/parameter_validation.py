"""A request against its shape: what AWS's front ends refuse before a service sees it, with their messages."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import Any, Final

from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.service_models import botocore_version

MAX_REPORTED: Final = 20
Faults = Iterator[str]


def check(shape: Any, value: Any, *, code: str = "ValidationException") -> None:
    """Raise AWS's error for a value that does not fit its shape; it lists all violated constraints."""
    faults = list(_faults(shape, value, ""))[:MAX_REPORTED]
    if faults:
        errors = "error" if len(faults) == 1 else "errors"
        raise ApiError(code, f"{len(faults)} validation {errors} detected: {'; '.join(faults)}")


def _faults(shape: Any, value: Any, path: str) -> Faults:
    find = _KINDS.get(shape.type_name)
    if find is not None:
        yield from find(shape, value, path)


def _structure(shape: Any, value: Any, path: str) -> Faults:
    if not isinstance(value, Mapping):
        raise _unreadable(value, "structure")
    for name in value:
        if name not in shape.members:
            where = _join(path, _camel(name))
            library = f"botocore {botocore_version()}"
            yield f"Value at '{where}' is unknown: {shape.name} has no member {name} in {library}"
    for name in shape.required_members:
        if value.get(name) is None:
            yield _fault(None, _join(path, _camel(name)), "Member must not be null")
    for name, member in shape.members.items():
        if value.get(name) is not None:
            yield from _faults(member, value[name], _join(path, _camel(name)))


def _list(shape: Any, value: Any, path: str) -> Faults:
    if not isinstance(value, list):
        raise _unreadable(value, "list")
    yield from _sized(shape, len(value), value, path)
    for number, item in enumerate(value, 1):
        where = f"{path}.{number}.member"
        if item is None:
            yield _fault(None, where, "Member must not be null")
        else:
            yield from _faults(shape.member, item, where)


def _map(shape: Any, value: Any, path: str) -> Faults:
    if not isinstance(value, Mapping):
        raise _unreadable(value, "map")
    yield from _sized(shape, len(value), value, path)
    if any(list(_faults(shape.key, key, path)) for key in value):
        yield _fault(value, path, f"Map keys must satisfy constraint: [{_rules(shape.key)}]")
    if any(item is None for item in value.values()):
        yield _fault(value, path, "Map values must not be null")
    elif shape.value.type_name == "string":
        if any(list(_faults(shape.value, item, path)) for item in value.values()):
            yield _fault(value, path, f"Map value must satisfy constraint: [{_rules(shape.value)}]")
    else:
        for key, item in value.items():
            yield from _faults(shape.value, item, f"{path}.{key}.member")


def _string(shape: Any, value: Any, path: str) -> Faults:
    if not isinstance(value, str):
        raise _unreadable(value, "String")
    if shape.enum:
        if value not in shape.enum:
            yield _fault(value, path, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]")
        return
    yield from _sized(shape, len(value), value, path)
    pattern = shape.metadata.get("pattern")
    if pattern is not None and not matches(pattern, value):
        yield _fault(value, path, f"Member must satisfy regular expression pattern: {pattern}")


def _number(shape: Any, value: Any, path: str) -> Faults:
    is_complete = shape.type_name in ("integer", "long")
    kind = {"integer": "an Integer", "long": "a Long"}.get(shape.type_name, "a Double")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unreadable(value, kind)
    if is_complete and value != int(value):
        raise ApiError("SerializationException", f"{value} can not be converted to {kind}")
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and value < low:
        yield _fault(value, path, f"Member must have value greater than or equal to {low}")
    if high is not None and value > high:
        yield _fault(value, path, f"Member must have value less than or equal to {high}")


def _boolean(shape: Any, value: Any, path: str) -> Faults:
    if not isinstance(value, bool):
        raise _unreadable(value, "a Boolean")
    yield from ()


def _timestamp(shape: Any, value: Any, path: str) -> Faults:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _unreadable(value, "a Date")
    yield from ()


def _blob(shape: Any, value: Any, path: str) -> Faults:
    yield from _sized(shape, len(value), value, path)


_KINDS: Final[Mapping[str, Callable[[Any, Any, str], Faults]]] = {
    "structure": _structure,
    "list": _list,
    "map": _map,
    "string": _string,
    "integer": _number,
    "long": _number,
    "float": _number,
    "double": _number,
    "boolean": _boolean,
    "timestamp": _timestamp,
    "blob": _blob,
}


def _sized(shape: Any, size: int, value: Any, path: str) -> Faults:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield _fault(value, path, f"Member must have length greater than or equal to {low}")
    if high is not None and size > high:
        yield _fault(value, path, f"Member must have length less than or equal to {high}")


def _rules(shape: Any) -> str:
    """The constraints of a map's keys or values, which AWS lists together."""
    if shape.enum:
        return f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
    limits = shape.metadata
    messages = [
        f"Member must have length less than or equal to {limits['max']}" if "max" in limits else "",
        f"Member must have length greater than or equal to {limits['min']}" if "min" in limits else "",
        f"Member must satisfy regular expression pattern: {limits['pattern']}" if "pattern" in limits else "",
    ]
    return ", ".join(text for text in messages if text)


def _fault(value: Any, path: str, rule: str) -> str:
    return f"Value{_format(value)} at '{path}' failed to satisfy constraint: {rule}"


def _format(value: Any) -> str:
    if value is None:
        return " null"
    if isinstance(value, bytes):
        return ""
    return f" '{value if isinstance(value, str) else _java(value)}'"


def _java(value: Any) -> str:
    """As Java prints a collection: [a, b] and {k=v}."""
    if isinstance(value, list):
        return f"[{', '.join(_java(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}={_java(item)}' for key, item in value.items())}}}"
    return value if isinstance(value, str) else json.dumps(value)


def _unreadable(value: Any, kind: str) -> ApiError:
    if isinstance(value, list):
        text = "Start of list found where not expected"
    elif isinstance(value, Mapping):
        text = "Start of structure or map found where not expected."
    elif kind in ("structure", "list", "map"):
        text = f"Expected {kind} or null"
    else:
        text = f"{_token(value)} can not be converted to {kind if ' ' in kind else f'a {kind}'}"
    return ApiError("SerializationException", text)


def _token(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if isinstance(value, str):
        return "STRING_VALUE"
    return "DECIMAL_VALUE" if isinstance(value, float) else "NUMBER_VALUE"


def _camel(name: str) -> str:
    return name[:1].lower() + name[1:]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_CLASS: Final = re.compile(r"\\p\{(\w+)\}")
_PLAIN: Final = {"ASCII": r"\x00-\x7f", "Print": r"\x20-\x7e", "Alnum": "a-zA-Z0-9", "Alpha": "a-zA-Z"}


def matches(pattern: str, text: str) -> bool:
    """Like Java's `String.matches`: the whole text must match. A pattern that cannot be compiled matches everything."""
    compiled = _compiled(pattern)
    return compiled is None or compiled.fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    text = pattern.replace(r"\z", r"\Z").replace(r"[\w-_]", r"[\w\-_]")
    # Java writes a character beyond U+FFFF as two surrogates; Python has it as one.
    text = text.replace(r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF")
    try:
        return re.compile(_translated(text))
    except re.error:
        return None


def _translated(pattern: str) -> str:
    out, inside, at = [], False, 0
    for found in _CLASS.finditer(pattern):
        before = pattern[at : found.start()]
        inside = _is_inside(before, inside=inside)
        ranges = _ranges(found.group(1))
        out += [before, ranges if inside else f"[{ranges}]"]
        at = found.end()
    return "".join((*out, pattern[at:]))


def _is_inside(text: str, *, inside: bool) -> bool:
    """Whether the place after `text` is within a [class]."""
    for char in re.sub(r"\\.", "", text):
        inside = (inside or char == "[") and char != "]"
    return inside


@cache
def _ranges(name: str) -> str:
    """The characters of a Unicode category, as the inside of a class."""
    if name in _PLAIN:
        return _PLAIN[name]
    runs: list[list[int]] = []
    for category, first, last in _categories():
        if not category.startswith(name):
            continue
        if runs and runs[-1][1] == first - 1:
            runs[-1][1] = last
        else:
            runs.append([first, last])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)


@cache
def _categories() -> list[tuple[str, int, int]]:
    """Each run of characters of one category, with its first and last."""
    runs, first = [], 0
    for category, same in groupby(map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))):
        last = first + sum(1 for _ in same) - 1
        runs.append((category, first, last))
        first = last + 1
    return runs
