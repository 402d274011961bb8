"""Digests of settings: the same settings have the same digest, on every machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = (f for f in dataclasses.fields(value) if not is_absent(f, getattr(value, f.name)))
        fields = {f.name: canonical(getattr(value, f.name)) for f in shown}
        return {"type": type(value).__dict__["__digest_tag__"], **fields}
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, bytes):
        return _sha256(value)
    return value


def is_absent(field: dataclasses.Field[Any], value: Any) -> bool:
    """Whether it is such a field with its default: it is in no digest, no record and no event."""
    return bool(field.metadata.get("added")) and value == field.default


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
