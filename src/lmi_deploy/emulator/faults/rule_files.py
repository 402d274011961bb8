"""Fault rules as JSON: read strictly (a rule with a typing error would never fire), and written back."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from lmi_deploy.emulator.faults import rules
from lmi_deploy.emulator.faults.rules import Action, BadRule, FaultRule, Tally

ACTIONS: Final[Mapping[str, type[Action]]] = {
    "answer": rules.Answer,
    "change": rules.ChangedResponse,
    "hang": rules.Hang,
    "drop": rules.Drop,
    "lose": rules.Lose,
    "repeat": rules.Repeat,
    "cut": rules.Cut,
    "stall": rules.Stall,
    "flip": rules.Flip,
    "pad": rules.Pad,
    "ignore_range": rules.IgnoreRange,
    "shift_range": rules.ShiftRange,
}
_HINT: Final = "`lmi docs fault-rules` lists every key and every action"


def load_rules(path: Path) -> tuple[FaultRule, ...]:
    """The rules of a `--faults FILE`."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadRule(f"{path}: cannot be read: {exc}", hint=_HINT) from exc
    try:
        return parse_rules(text)
    except BadRule as exc:
        raise BadRule(f"{path}: {exc.message}", hint=exc.hint) from exc


def parse_rules(text: str) -> tuple[FaultRule, ...]:
    """One rule, a list of them, or `{"rules": [...]}`; BadRule with the position for any error."""
    try:
        found = json.loads(text)
    except ValueError as exc:
        raise BadRule(f"not JSON: {exc}", hint=_HINT) from exc
    if isinstance(found, dict) and "rules" in found:
        _refuse_unknown("", found, ["rules"])
        found = found["rules"]
    listed = found if isinstance(found, list) else [found]
    return tuple(_rule(f"rule {number}", item) for number, item in enumerate(listed, 1))


def _rule(where: str, item: Any) -> FaultRule:
    fields = _object(where, item)
    if "do" not in fields:
        raise BadRule(f"{where}: the key do is missing, which says what happens", hint=_HINT)
    values = _typed(where, FaultRule, {key: value for key, value in fields.items() if key != "do"})
    rule = FaultRule(do=_action(f"{where}: do", fields["do"]), **values)
    _check_counts(where, rule)
    return rule


def _check_counts(where: str, rule: FaultRule) -> None:
    for key, pattern in (("path", rule.path), *((f"headers.{k}", v) for k, v in rule.headers.items())):
        try:
            re.compile(pattern)
        except re.error as exc:
            raise BadRule(f"{where}: {key}: not a regular expression: {exc}", hint=_HINT) from exc
    for key, count in (("nth", rule.nth), ("every", rule.every), ("times", rule.times)):
        if count is not None and count < 1:
            raise BadRule(f"{where}: {key}: {count} is less than 1 (times: null means no limit)", hint=_HINT)


def _action(where: str, item: Any) -> Action:
    """`"lose"` or `{"cut": {"after": 10}}`: exactly one action."""
    found = {item: {}} if isinstance(item, str) else _object(where, item)
    _refuse_unknown(where, found, list(ACTIONS))
    if len(found) != 1:
        raise BadRule(f"{where}: {len(found)} actions; name exactly one of {', '.join(ACTIONS)}", hint=_HINT)
    ((name, fields),) = found.items()
    where = f"{where}.{name}"
    kind = ACTIONS[name]
    values = _typed(where, kind, _object(where, fields))
    for field in dataclasses.fields(kind):
        if field.name not in values and _is_required(field):
            raise BadRule(f"{where}: {field.name} is missing", hint=_HINT)
    return kind(**values)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _typed(where: str, kind: type[FaultRule] | type[Action], fields: Mapping[str, Any]) -> dict[str, Any]:
    declared = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    _refuse_unknown(where, fields, [name for name in declared if name != "do"])
    values: dict[str, Any] = {}
    for name, value in fields.items():
        expected, is_good = _CHECKS[declared[name]]
        if not is_good(value):
            raise BadRule(f"{where}: {name}: {json.dumps(value)} is not {expected}", hint=_HINT)
        values[name] = tuple(value) if declared[name].startswith("tuple") else value
    return values


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


_CHECKS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "str": ("a string", lambda value: isinstance(value, str)),
    "int": ("a whole number", _is_integer),
    "int | None": ("a whole number or null", lambda value: value is None or _is_integer(value)),
    "float": ("a number of seconds", _is_seconds),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "Mapping[str, str]": (
        "an object of strings",
        lambda value: isinstance(value, dict) and _are_texts(value.values()),
    ),
    "tuple[str, ...]": ("a list of strings", lambda value: isinstance(value, list) and _are_texts(value)),
}


def _object(where: str, item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise BadRule(f"{where}: {json.dumps(item)} is not an object", hint=_HINT)
    return item


def _refuse_unknown(where: str, fields: Mapping[str, Any], known: list[str]) -> None:
    for name in fields:
        if name not in known:
            local = difflib.get_close_matches(name, known, 1)
            guess = f"did you mean {local[0]}?" if local else f"known: {', '.join(known)}"
            raise BadRule(f"{where}: {name}: unknown, {guess}".removeprefix(": "), hint=_HINT)


def describe(tally: Tally) -> dict[str, Any]:
    """A rule as JSON again, with how often it matched and fired."""
    rule = tally.rule
    fields = {
        field.name: getattr(rule, field.name)
        for field in dataclasses.fields(rule)
        if field.name != "do"
        and (_is_required(field) or getattr(rule, field.name) not in (field.default, {}))
    }
    name = next(name for name, kind in ACTIONS.items() if isinstance(rule.do, kind))
    action = {name: dataclasses.asdict(rule.do)}
    return fields | {"do": action, "matched": tally.matched, "fired": tally.fired}
