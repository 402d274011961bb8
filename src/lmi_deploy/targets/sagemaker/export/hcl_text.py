"""Terraform's language, from plain values, in the layout of `terraform fmt`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Expression:
    """Written as it is."""

    text: str


@dataclass(slots=True)
class Body:
    """The content of a block: arguments, then nested blocks, each with its labels."""

    arguments: dict[str, Any] = field(default_factory=dict)
    blocks: list[tuple[str, Body]] = field(default_factory=list)


def hcl_lines(body: Body, indent: int = 0) -> Iterator[str]:
    """Equals signs on neighbouring lines are aligned; an argument of several lines is a group of its own."""
    space = "  " * indent
    flat = {name: value for name, value in body.arguments.items() if not _is_long(value)}
    width = max(map(len, flat), default=0)
    groups: list[list[str]] = []
    if flat:
        groups.append([f"{space}{name:<{width}} = {hcl(value)}" for name, value in flat.items()])
    for name, value in body.arguments.items():
        if name not in flat:
            groups.append(list(_map_lines(name, value, space)))
    for label, nested in body.blocks:
        groups.append([f"{space}{label} {{", *hcl_lines(nested, indent + 1), f"{space}}}"])
    for number, group in enumerate(groups):
        if number:
            yield ""
        yield from group


def _map_lines(name: str, value: Mapping[str, Any], space: str) -> Iterator[str]:
    keys = {key: key if _IDENTIFIER.fullmatch(key) else hcl(key) for key in value}
    width = max(map(len, keys.values()))
    yield f"{space}{name} = {{"
    yield from (f"{space}  {keys[key]:<{width}} = {hcl(item)}" for key, item in value.items())
    yield f"{space}}}"


def hcl(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, str):
        return f'"{quoted(value)}"'
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(hcl(item) for item in value)}]"
    return json.dumps(value)


def quoted(text: str) -> str:
    """The content of a quoted string: what would start an interpolation or a directive is doubled."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return escaped.replace("${", "$${").replace("%{", "%%{")


def _is_long(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value)
