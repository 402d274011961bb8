"""The difference between a machine's clock and S3's, from the times of S3's responses. Pure.

A response names only the second in which it was made. So one response says that S3's clock is within a second, and
responses around the moment at which a second begins say more: each halves what is unknown, until what is left is the
time that a request takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GOOD_ENOUGH = 0.02
"""Seconds: a smaller range is not worth another request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """Seconds by which S3's clock is ahead of this machine's: between `low` and `high`."""

    low: float
    high: float

    @property
    def seconds(self) -> float:
        return (self.low + self.high) / 2

    @property
    def uncertainty(self) -> float:
        """On either side of `seconds`."""
        return (self.high - self.low) / 2

    @property
    def is_good_enough(self) -> bool:
        return self.high - self.low <= GOOD_ENOUGH

    def next_look(self, now: float) -> float:
        """The time of this machine from `now` on at which a second begins on S3's clock, if the middle of the range is
        right: a response at that time excludes one half of the range.
        """
        return math.ceil(now + self.seconds) - self.seconds


def narrowed(known: ClockOffset | None, *, second: float, sent: float, received: float) -> ClockOffset:
    """With a response that S3 made in this `second`, between two times of this machine's clock."""
    low, high = second - received, second + 1 - sent
    if known is None:
        return ClockOffset(low=low, high=high)
    low, high = max(low, known.low), min(high, known.high)
    # S3 is many servers: if two of them differ, the range is that between them.
    return ClockOffset(low=min(low, high), high=max(low, high))
