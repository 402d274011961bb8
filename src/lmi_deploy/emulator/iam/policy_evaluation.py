"""Evaluate IAM policy documents: explicit deny, else any allow, else no."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)
    """Condition keys in lower case, and their values; several values of one key are parted by newlines."""
    refusal: str = ""
    """The message if it is not allowed, if it differs from the usual one."""


def read_document(text: str | Mapping[str, Any]) -> Document:
    """As it was put: JSON, or URL-encoded JSON."""
    if not isinstance(text, str):
        return text
    found: Document = json.loads(text if text.lstrip().startswith("{") else unquote(text))
    return found


def allows(documents: Iterable[Document], request: Request) -> bool:
    """The decision of identity policies on a request."""
    effects = {effect for document in documents for effect in _effects(document, request)}
    return "Allow" in effects and "Deny" not in effects


def denies(documents: Iterable[Document], request: Request) -> bool:
    """Whether a statement denies it in so many words."""
    return any("Deny" in _effects(document, request) for document in documents)


def trusts(document: Document, service: str) -> bool:
    """Whether a trust policy lets a service assume the role."""
    effects = set()
    for statement in _statements(document):
        principals = statement.get("Principal", {})
        services = ["*"] if principals == "*" else _several(principals.get("Service", ()))
        is_named = service in services or "*" in services
        if is_named and _is_listed("sts:AssumeRole", statement.get("Action"), fold=True):
            effects.add(statement["Effect"])
    return effects == {"Allow"}


def _effects(document: Document, request: Request) -> Iterable[str]:
    for statement in _statements(document):
        if _acts(statement, request) and _touches(statement, request) and _holds(statement, request):
            yield statement["Effect"]


def _statements(document: Document) -> list[Mapping[str, Any]]:
    found = document.get("Statement", [])
    return [found] if isinstance(found, Mapping) else list(found)


def _acts(statement: Mapping[str, Any], request: Request) -> bool:
    if "NotAction" in statement:
        return not _is_listed(request.action, statement["NotAction"], fold=True)
    return _is_listed(request.action, statement.get("Action"), fold=True)


def _touches(statement: Mapping[str, Any], request: Request) -> bool:
    if "NotResource" in statement:
        return not _is_listed(request.resource, statement["NotResource"], fold=False)
    return _is_listed(request.resource, statement.get("Resource"), fold=False)


def _holds(statement: Mapping[str, Any], request: Request) -> bool:
    return all(
        _compare(operator, request.context.get(key.lower()), _several(expected))
        for operator, keys in statement.get("Condition", {}).items()
        for key, expected in keys.items()
    )


def _compare(operator: str, observed: str | None, expected: list[str]) -> bool:
    if operator == "Null":
        return (observed is None) == (expected[0].lower() == "true")
    base = operator.removeprefix("ForAnyValue:").removeprefix("ForAllValues:")
    optional = base.endswith("IfExists") or operator.startswith("ForAllValues:")
    base = base.removesuffix("IfExists")
    test = _OPERATORS.get(base)
    if test is None:
        raise ValueError(f"condition operator {operator} is not emulated")
    is_negative = "Not" in base
    if observed is None:
        return optional or is_negative
    existing = [any(test(one, text) for text in expected) != is_negative for one in observed.split("\n")]
    return all(existing) if operator.startswith("ForAllValues:") else any(existing)


def _equal(observed: str, text: str) -> bool:
    return observed == text


def _folded(observed: str, text: str) -> bool:
    return observed.lower() == text.lower()


def _matches_pattern(observed: str, text: str) -> bool:
    return _matches(observed, text)


_OPERATORS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "StringEquals": _equal,
    "StringNotEquals": _equal,
    "StringEqualsIgnoreCase": _folded,
    "StringNotEqualsIgnoreCase": _folded,
    "StringLike": _matches_pattern,
    "StringNotLike": _matches_pattern,
    "ArnEquals": _matches_pattern,
    "ArnLike": _matches_pattern,
    "ArnNotEquals": _matches_pattern,
    "ArnNotLike": _matches_pattern,
    "Bool": _folded,
    "NumericEquals": _equal,
}


def _is_listed(value: str, patterns: Any, *, fold: bool) -> bool:
    several = _several(patterns)
    if fold:
        return any(_matches(value.lower(), pattern.lower()) for pattern in several)
    return any(_matches(value, pattern) for pattern in several)


def _matches(value: str, pattern: str) -> bool:
    """IAM's wildcards: * and ?, nothing else."""
    escaped = pattern.replace("[", "[[]")
    return re.fullmatch(fnmatch.translate(escaped), value) is not None


def _several(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
