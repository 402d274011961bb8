"""Tables of arguments over versions, as the catalog stores them: only the changes of each, one line for each entry."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Rule = dict[str, Any]


def changes(versions: Sequence[Mapping[str, Any]], value: Callable[[Any], Any]) -> dict[str, list[list[Any]]]:
    """By name, `[index of the first version, value]` of each change; a null value: it is gone."""
    found: dict[str, list[list[Any]]] = {}
    for name in sorted({name for one in versions for name in one}):
        spans: list[list[Any]] = []
        for index, one in enumerate(versions):
            now = value(one[name]) if name in one else None
            if now != (spans[-1][1] if spans else None):
                spans.append([index, now])
        found[name] = spans
    return found


def rule_index(rules: list[Rule], rule: Rule) -> int:
    """The place of a rule in the list, which gets it if it is new."""
    rule = {key: value for key, value in rule.items() if value is not False}
    if rule not in rules:
        rules.append(rule)
    return rules.index(rule)


def write_table(path: Path, table: Mapping[str, Any]) -> None:
    """One line for each entry, so that a change can be read."""
    lines = [f"{json.dumps(key)}: {_block(value)}" for key, value in table.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii")


def _block(value: Any) -> str:
    match value:
        case dict():
            return "{\n" + ",\n".join(f"{json.dumps(k)}:{_short(v)}" for k, v in value.items()) + "\n}"
        case list():
            return "[\n" + ",\n".join(map(_short, value)) + "\n]"
        case _:
            pass
    return _short(value)


def _short(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
