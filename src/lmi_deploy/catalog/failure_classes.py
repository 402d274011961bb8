"""Classes of failures, written by hand: what lines of a kind mean and what to do, for messages that no entry of
`known_failures` knows. They go by the words of the message, the exception and the names in the vendor's condition."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureClass:
    """The first class that matches counts: the table goes from the specific to the general."""

    id: str
    match: tuple[str, ...]
    """Regular expressions; case does not matter."""
    cause: str
    remedy: str
    exceptions: str = ""
    """Classes of exceptions that suffice by themselves (a regular expression)."""
    unless: str = ""
    settings: tuple[str, ...] = ()
    weak: bool = False
    """The cause only if nothing better is in the log."""


@cache
def failure_classes() -> tuple[FailureClass, ...]:
    table: dict[str, Any] = json.loads(_read())
    return tuple(
        FailureClass(**{**each, "match": tuple(each["match"]), "settings": tuple(each.get("settings", ()))})
        for each in table["classes"]
    )


def source() -> tuple[str, str]:
    """The source of the table, and its date."""
    table: dict[str, Any] = json.loads(_read())
    return table["source"], table["date"]


def class_of(message: str, exception: str = "") -> FailureClass | None:
    """The class of a message, with or without what is known of its condition."""
    return next((each for each in failure_classes() if _fits(each, message, exception)), None)


def _fits(one: FailureClass, message: str, exception: str) -> bool:
    if one.unless and _compiled(one.unless).search(message):
        return False
    if one.exceptions and exception and _compiled(one.exceptions).search(exception):
        return True
    return any(_compiled(each).search(message) for each in one.match)


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def _read() -> str:
    return Path(__file__).with_name("failure_classes.json").read_text(encoding="utf-8")
