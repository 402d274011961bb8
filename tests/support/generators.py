"""Run a generator to its end."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

Yielded = TypeVar("Yielded")
Returned = TypeVar("Returned")


def finished(steps: Generator[Yielded, None, Returned]) -> tuple[Returned, list[Yielded]]:
    """What it returned, and all that it yielded."""
    yielded: list[Yielded] = []
    while True:
        try:
            yielded.append(next(steps))
        except StopIteration as end:
            return end.value, yielded


def result_of(steps: Generator[Any, None, Returned]) -> Returned:
    return finished(steps)[0]
