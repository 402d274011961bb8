"""Digests of settings: the same settings have the same digest, on every machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, TypeVar

T = TypeVar("T")
ADDED: Final = {"added": True}
"""The metadata of a field that a later version added: it is in no digest, and in no JSON, as long as it has its
default, so that the names of live resources stay.
"""


def digest_tag(tag: str) -> Callable[[type[T]], type[T]]:
    """The name of a dataclass in digests. Digests name live resources: the tag stays when the class is renamed."""

    def set_tag(cls: type[T]) -> type[T]:
        cls.__digest_tag__ = tag  # type: ignore[attr-defined]
        return cls

    return set_tag


def canonical(value: Any) -> Any:
    """Plain JSON values: dataclasses by field name and with their tag, tuples as lists."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if is_instance_of_dataclass(value):
        fields = {name: canonical(item) for name, item in shown_fields(value)}
        return {"type": type(value).__dict__["__digest_tag__"], **fields}
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, bytes):
        return _sha256(value)
    return value


def is_instance_of_dataclass(value: Any) -> bool:
    return hasattr(type(value), "__dataclass_fields__")


def shown_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a dataclass and their values. One that is `ADDED` and has its default is in no digest, no record
    and no event.
    """
    kind: Any = type(value)
    for name, is_added, default in _fields(kind):
        item = getattr(value, name)
        if not (is_added and item == default):
            yield name, item


@cache
def _fields(kind: Any) -> tuple[tuple[str, bool, Any], ...]:
    return tuple(
        (field.name, bool(field.metadata.get("added")), field.default) for field in dataclasses.fields(kind)
    )


def digest(value: Any) -> str:
    """sha256 in hex over the canonical JSON of a value; stable over runs, machines and dictionary order."""
    import json

    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return _sha256(text.encode())


def _sha256(data: bytes) -> str:
    import hashlib  # with OpenSSL: 3 ms that a command without a digest need not wait for

    return hashlib.sha256(data).hexdigest()


def short(hex_digest: str, length: int = 10) -> str:
    """The part of a digest that is used in a name."""
    return hex_digest[:length]
