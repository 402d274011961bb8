"""Evaluate IAM policy documents: explicit deny, else any allow, else no."""

from __future__ import annotations

import fnmatch
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AccessRequest:
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


def allows(documents: Iterable[Document], request: AccessRequest) -> bool:
    """The decision of identity policies on a request."""
    effects = {effect for document in documents for effect in _effects(document, request)}
    return "Allow" in effects and "Deny" not in effects


def denies(documents: Iterable[Document], request: AccessRequest) -> bool:
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


def _effects(document: Document, request: AccessRequest) -> Iterable[str]:
    for statement in _statements(document):
        acts = _is_covered(statement, "Action", request.action, fold=True)
        touches = acts and _is_covered(statement, "Resource", request.resource, fold=False)
        if touches and _holds(statement, request):
            yield statement["Effect"]


def _statements(document: Document) -> list[Mapping[str, Any]]:
    found = document.get("Statement", [])
    return [found] if isinstance(found, Mapping) else list(found)


def _is_covered(statement: Mapping[str, Any], key: str, value: str, *, fold: bool) -> bool:
    if f"Not{key}" in statement:
        return not _is_listed(value, statement[f"Not{key}"], fold=fold)
    return _is_listed(value, statement.get(key), fold=fold)


def _holds(statement: Mapping[str, Any], request: AccessRequest) -> bool:
    return all(
        _compare(name, request.context.get(key.lower()), _several(expected))
        for name, keys in statement.get("Condition", {}).items()
        for key, expected in keys.items()
    )


def _compare(name: str, observed: str | None, expected: list[str]) -> bool:
    if name == "Null":
        return (observed is None) == (expected[0].lower() == "true")
    base = name.removeprefix("ForAnyValue:").removeprefix("ForAllValues:")
    optional = base.endswith("IfExists") or name.startswith("ForAllValues:")
    base = base.removesuffix("IfExists")
    test = _OPERATORS.get(base)
    if test is None:
        raise ValueError(f"condition operator {name} is not emulated")
    is_negative = "Not" in base
    if observed is None:
        return optional or is_negative
    existing = [any(test(one, text) for text in expected) != is_negative for one in observed.split("\n")]
    return all(existing) if name.startswith("ForAllValues:") else any(existing)


def _folded(observed: str, text: str) -> bool:
    return observed.lower() == text.lower()


def _matches(value: str, pattern: str) -> bool:
    """IAM's wildcards: * and ?, nothing else."""
    return _compiled(pattern).fullmatch(value) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


_OPERATORS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "StringEquals": operator.eq,
    "StringNotEquals": operator.eq,
    "StringEqualsIgnoreCase": _folded,
    "StringNotEqualsIgnoreCase": _folded,
    "StringLike": _matches,
    "StringNotLike": _matches,
    "ArnEquals": _matches,
    "ArnLike": _matches,
    "ArnNotEquals": _matches,
    "ArnNotLike": _matches,
    "Bool": _folded,
    "NumericEquals": operator.eq,
}


def _is_listed(value: str, patterns: Any, *, fold: bool) -> bool:
    if fold:
        return any(_matches(value.lower(), pattern.lower()) for pattern in _several(patterns))
    return any(_matches(value, pattern) for pattern in _several(patterns))


def _several(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
