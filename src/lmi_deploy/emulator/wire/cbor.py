"""CBOR as the `smithy-rpc-v2-cbor` protocol uses it: no tags but times, definite and indefinite lengths."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

_BREAK: Final = object()
_EPOCH_TAG: Final = 1
_FLOATS: Final = {25: (">e", 2), 26: (">f", 4), 27: (">d", 8)}
_SIMPLE: Final[Mapping[int, Any]] = {20: False, 21: True, 22: None, 23: None, 31: _BREAK}


class CborTimestamp(float):
    """Seconds since 1970, written as a time."""


def loads(raw: bytes) -> Any:
    value, _ = _read(raw, 0)
    return value


def dumps(value: Any) -> bytes:
    if value is None:
        return b"\xf6"
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, CborTimestamp):
        return _head(6, _EPOCH_TAG) + b"\xfb" + struct.pack(">d", value)
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, Mapping):
        pairs = b"".join(dumps(key) + dumps(item) for key, item in value.items())
        return _head(5, len(value)) + pairs
    return _head(4, len(value)) + b"".join(dumps(item) for item in value)


def as_cbor(kind: str, value: Any) -> Any:
    """A `Leaf` of responses."""
    return CborTimestamp(value) if kind == "timestamp" else value


def _head(major: int, number: int) -> bytes:
    for code, size, form in ((24, 1, ">B"), (25, 2, ">H"), (26, 4, ">I"), (27, 8, ">Q")):
        if number < 24:
            return bytes([major << 5 | number])
        if number < 1 << (8 * size):
            return bytes([major << 5 | code]) + struct.pack(form, number)
    raise ValueError(f"{number} is too large for CBOR")


def _read(raw: bytes, at: int) -> tuple[Any, int]:
    major, extra = raw[at] >> 5, raw[at] & 31
    if major == 7:
        return _simple(raw, at, extra)
    number, at = _number(raw, at + 1, extra)
    if major == 0:
        return number, at
    if major == 1:
        return -1 - (number or 0), at
    if major in (2, 3):
        return _text(raw, at, number, major=major)
    if major == 4:
        return _items(raw, at, number)
    if major == 5:
        return _pairs(raw, at, number)
    # The only tag of the protocol is a time; the shape of the field gives its type, so the tag's number is ignored.
    return _read(raw, at)


def _simple(raw: bytes, at: int, extra: int) -> tuple[Any, int]:
    if extra in _FLOATS:
        form, size = _FLOATS[extra]
        return struct.unpack(form, raw[at + 1 : at + 1 + size])[0], at + 1 + size
    return _SIMPLE[extra], at + 1


def _number(raw: bytes, at: int, extra: int) -> tuple[int | None, int]:
    if extra < 24:
        return extra, at
    if extra == 31:
        return None, at
    size = 1 << (extra - 24)
    return int.from_bytes(raw[at : at + size], "big"), at + size


def _text(raw: bytes, at: int, size: int | None, *, major: int) -> tuple[Any, int]:
    if size is None:
        parts, at = _items(raw, at, None)
        return (b"" if major == 2 else "").join(parts), at
    content = raw[at : at + size]
    return (content if major == 2 else content.decode()), at + size


def _items(raw: bytes, at: int, count: int | None) -> tuple[list[Any], int]:
    items: list[Any] = []
    while count is None or len(items) < count:
        value, at = _read(raw, at)
        if value is _BREAK:
            break
        items.append(value)
    return items, at


def _pairs(raw: bytes, at: int, count: int | None) -> tuple[dict[Any, Any], int]:
    pairs: dict[Any, Any] = {}
    while count is None or len(pairs) < count:
        key, at = _read(raw, at)
        if key is _BREAK:
            break
        pairs[key], at = _read(raw, at)
    return pairs, at
