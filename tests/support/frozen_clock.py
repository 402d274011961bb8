"""A clock that moves only during a sleep: waiting costs no time, and the time waited is known."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class FrozenClock:
    """Safe to use from several threads; every sleep moves it on."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._lock = threading.Lock()
        self._start = start
        self.slept = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.slept)

    def monotonic(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept += max(0.0, seconds)

    def timestamp(self) -> float:
        """For servers that take a plain function of the wall clock."""
        return self.now().timestamp()
