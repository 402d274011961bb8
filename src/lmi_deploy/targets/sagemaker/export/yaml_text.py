"""YAML as CloudFormation reads it, from plain values: mappings, lists, texts, numbers, and its short functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z/]([A-Za-z0-9_./:+=@-]*[A-Za-z0-9_/])?")
"""Texts that need no quotes: no indicator of YAML at the start, no blank, no colon at the end."""
_WORDS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"])
"""What YAML 1.1 or 1.2, or a reader in a hurry, takes for something else."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of CloudFormation in its short form, such as `!Ref Bucket`."""

    name: str
    argument: str


def yaml_lines(value: Any, indent: int = 0) -> Iterator[str]:
    """The lines of a mapping or a list that is not empty."""
    space = "  " * indent
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{space}{_scalar(key)}:", item, indent)
    else:
        for item in value:
            yield from _item(space, item, indent)


def _entry(start: str, item: Any, indent: int) -> Iterator[str]:
    if _is_nested(item):
        yield start
        yield from yaml_lines(item, indent + 1)
    else:
        yield f"{start} {_scalar(item)}"


def _item(space: str, item: Any, indent: int) -> Iterator[str]:
    if not _is_nested(item):
        yield f"{space}- {_scalar(item)}"
        return
    first, *rest = yaml_lines(item, indent + 1)
    yield f"{space}- {first.lstrip()}"
    yield from rest


def _is_nested(value: Any) -> bool:
    return isinstance(value, (Mapping, Sequence)) and not isinstance(value, str) and bool(value)


def _scalar(value: Any) -> str:
    if isinstance(value, Function):
        return f"!{value.name} {_scalar(value.argument)}"
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    """As in JSON, but YAML has no surrogate pairs, and allows only printable characters."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)
