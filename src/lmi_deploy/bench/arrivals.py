"""The schedule of an open loop: when each request is sent, whatever became of those before it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count
from typing import Final

from lmi_deploy.bench.load import Load

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


def ramped_times(load: Load, *, seed: int, warm_at: Callable[[], float | None]) -> Iterator[float]:
    """As `arrival_times`, at the rate of a ramp, which begins at `warm_at`; None: not yet."""
    drawn, shape = random.Random(seed), 1.0 if load.arrivals == "poisson" else BURSTINESS
    at = 0.0
    while True:
        yield at
        gap = 1.0 if load.arrivals == "constant" else drawn.gammavariate(shape, 1 / shape)
        at = _later(load, at, gap, warm_at())


def _later(load: Load, at: float, gap: float, begin: float | None) -> float:
    """When so many more requests (a fraction, too) are due: the area below the rate is `gap`."""
    ramp, first = load.ramp, load.level(-1.0)
    assert ramp
    if begin is None or (begin - at) * first >= gap:
        return at + gap / first
    since = max(at - begin, 0.0)
    gap -= max(begin - at, 0.0) * first
    if since < ramp.seconds:
        slope, now = (ramp.to - first) / ramp.seconds, load.level(since)
        left = ramp.seconds - since
        if gap <= left * (now + ramp.to) / 2:
            return begin + since + 2 * gap / (now + math.sqrt(now * now + 2 * slope * gap))
        gap -= left * (now + ramp.to) / 2
        since = ramp.seconds
    return begin + since + gap / ramp.to


def replayed_times(recorded: Sequence[float]) -> Iterator[float]:
    """Of a trace, from its first request."""
    first = min(recorded)
    return (at - first for at in sorted(recorded))
