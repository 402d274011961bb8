"""Names and digests: the same settings give the same name, on every machine."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME = 48


def digest_tag(tag: str) -> Callable[[type[T]], type[T]]:
    """The name of a dataclass in digests. Digests name live resources: the tag stays when the class is renamed."""

    def set_tag(cls: type[T]) -> type[T]:
        cls.__digest_tag__ = tag  # type: ignore[attr-defined]
        return cls

    return set_tag


def canonical(value: Any) -> Any:
    """Plain JSON values of a noun: dataclasses by field name and with their tag, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: canonical(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__dict__["__digest_tag__"], **fields}
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    return value


def name_for(model_id: str) -> str:
    """A deployment's name from the model's, shortened so that an overlay's name fits; invalid characters become
    dashes.
    """
    last = model_id.rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")
    return name[: MAX_NAME - 8].strip("-") or "model"


def digest(value: Any) -> str:
    """sha256 in hex over the canonical JSON of a noun; stable over runs, machines and dictionary order."""
    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def short(hex_digest: str, length: int = 10) -> str:
    """The part of a digest that is used in a name."""
    return hex_digest[:length]


def name_error(name: str) -> str:
    """Why `name` cannot be a deployment's name, or an empty string (design section 2)."""
    if not NAME.fullmatch(name):
        return "use lower case letters, digits and single dashes between them"
    if len(name) > MAX_NAME:
        return f"{len(name)} characters, at most {MAX_NAME}"
    return ""


def prefix_error(prefix: str, name: str) -> str:
    """Why `prefix` does not fit names such as `name`, or an empty string."""
    if not NAME.fullmatch(prefix.removesuffix("-")):
        return "use lower case letters, digits and single dashes between them, such as team-a-"
    if not name.startswith(prefix):
        return f"the recipe's name is {name}, which does not begin with this prefix"
    return ""
