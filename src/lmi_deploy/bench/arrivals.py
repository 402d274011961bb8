"""The schedule of an open loop: when each request is sent, whatever became of those before it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate, count
from typing import Final

ARRIVALS: Final = ("poisson", "constant", "gamma")
REPLAY: Final = "replay"
BURSTINESS: Final = 0.25
"""Shape of the gamma distribution: gaps vary twice as much as those of a Poisson process, whose shape is 1."""


def arrival_times(rate: float, arrivals: str, *, seed: int) -> Iterator[float]:
    """Seconds from the start, without end: `rate` a second on average. The same seed gives the same schedule."""
    if arrivals == "constant":
        return (number / rate for number in count())
    drawn = random.Random(seed)
    shape = 1.0 if arrivals == "poisson" else BURSTINESS
    return accumulate((drawn.gammavariate(shape, 1 / (rate * shape)) for _ in count()), initial=0.0)


def replayed_times(recorded: Sequence[float]) -> Iterator[float]:
    """Of a trace, from its first request."""
    first = min(recorded)
    return (at - first for at in sorted(recorded))
