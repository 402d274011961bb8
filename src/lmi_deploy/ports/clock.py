"""Time, so that waiting can be tested."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never decreases."""

    def sleep(self, seconds: float) -> None:
        """Wait; `Interrupted` may end it."""
