"""How often and how patiently a service is asked again: one policy per service, one count per call."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_ENOUGH = 8 << 20
"""Bytes: a transfer that received so many since it failed is no longer failing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`attempts` in a row, the first one included; `longest_wait` is the maximum of seconds between two."""

    attempts: int
    longest_wait: float

    def allows(self, failures: int) -> bool:
        return failures < self.attempts

    def delay(self, failures: int, random: Random) -> float:
        """Seconds, twice as many after each failure, with jitter."""
        seconds = min(self.longest_wait, 0.5 * 2**failures)
        return random.uniform(seconds / 2, seconds)


@dataclass(slots=True)
class FailureCount:
    """Failures in a row of one transfer; after enough received bytes the count starts again."""

    failures: int = 0
    _gained: int = 0

    def add(self, gained: int) -> int:
        """Count a failure, `gained` bytes after the one before."""
        self._gained += gained
        if self._gained >= _ENOUGH:
            self.failures, self._gained = 0, 0
        self.failures += 1
        return self.failures
