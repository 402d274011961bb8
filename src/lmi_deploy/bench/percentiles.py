"""Percentiles, and what a sample of that size can say about them.

The count of values below the p-th percentile is binomial, whatever the distribution of the values is. So a pair of
order statistics bounds the percentile at a known confidence, and a sample that is too small has no upper bound: to
claim a P99 takes 299 requests at 95 % confidence, and 459 at 99 %, even if none is above the limit. MLPerf's early
stopping is the same test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lmi_deploy.bench.histogram import Histogram
from lmi_deploy.bench.probability import binomial_at_most

CONFIDENCE: Final = 0.95
STANDARD: Final = (0.5, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """`value` is a value that occurred (nearest rank). `low` and `high` each hold at the asked confidence; None if the
    sample is too small for that bound.
    """

    quantile: float
    value: float
    low: float | None
    high: float | None
    needed: int
    """The least sample that supports this percentile."""

    @property
    def is_supported(self) -> bool:
        return self.high is not None and self.low is not None

    @property
    def name(self) -> str:
        return percentile_name(self.quantile)


def percentile_name(quantile: float) -> str:
    """`p50`, `p99.9`."""
    return f"p{quantile * 100:.10g}"


def needed_count(quantile: float, confidence: float = CONFIDENCE) -> int:
    """The least sample in which the greatest value is above this percentile, and the least below it, at that
    confidence.
    """
    far = max(quantile, 1 - quantile)
    return math.ceil(math.log(1 - confidence) / math.log(far) - 1e-9)


def percentile(
    sample: Histogram,
    quantile: float,
    confidence: float = CONFIDENCE,
    *,
    beyond: int = 0,
    inflation: float = 1.0,
) -> Percentile | None:
    """None of an empty sample. `beyond` values more are above all others: requests that failed. `inflation` values say
    as much as one independent value, as the gaps of one stream do.
    """
    n = sample.n + beyond
    if not n:
        return None
    independent = max(1, int(n / inflation))
    low, high = _bounds(independent, quantile, confidence)

    def ranked(rank: int) -> float:
        return sample.ranked(rank) if rank <= sample.n else math.inf

    return Percentile(
        quantile=quantile,
        value=ranked(max(math.ceil(quantile * n - 1e-9), 1)),
        low=ranked(max(1, low * n // independent)) if low else None,
        high=ranked(-(-high * n // independent)) if high else None,
        needed=needed_count(quantile, confidence),
    )


def _bounds(n: int, quantile: float, confidence: float) -> tuple[int | None, int | None]:
    """Ranks, from 1: the greatest that is below the percentile, the least that is above it; each at `confidence`."""
    lower = _first(lambda k: binomial_at_most(k - 1, n, quantile) > 1 - confidence, n + 1) - 1
    upper = _first(lambda k: binomial_at_most(k - 1, n, quantile) >= confidence, n + 1)
    return (lower or None), (upper if upper <= n else None)


def _first(holds: Callable[[int], bool], end: int) -> int:
    """The least number from 1 to `end` that holds; `end` if none before it does. What holds once holds from there."""
    low, high = 1, end
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
