"""Eventual consistency on request (`--lag`): how long an accepted change takes to be visible everywhere."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from lmi_deploy.errors import UsageRefused

HINT: Final = "write --lag 5 for all delays, or --lag tags=300,reads=5,roles=10 for each"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Seconds, of which docs/reference/emulator.md has the sources."""

    tags: float = 0.0
    """Until the tagging API shows a new resource, a changed tag or a deletion."""
    reads: float = 0.0
    """Delay until SageMaker finds a new model or endpoint configuration: Describe, List, and requests that name it."""
    roles: float = 0.0
    """Until SageMaker can assume a new role."""


def parse_lag(text: str) -> Lag:
    """`SECONDS`, or `NAME=SECONDS,...` with the names of `Lag`; UsageRefused for anything else."""
    names = [field.name for field in dataclasses.fields(Lag)]
    if "=" not in text:
        return Lag(**dict.fromkeys(names, _seconds(text, text)))
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, seconds = part.partition("=")
        if name not in names or name in given:
            raise UsageRefused(
                f"--lag {text}: only {', '.join(names)} are allowed, each at most once", hint=HINT
            )
        given[name] = _seconds(seconds, text)
    return Lag(**given)


def _seconds(text: str, full: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageRefused(f"--lag {full}: {text!r} is not a number of seconds", hint=HINT)
    return seconds
