"""Whether two samples differ: the Mann-Whitney test, the size of the effect with its interval, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from lmi_deploy.bench.histogram import Histogram
from lmi_deploy.bench.probability import t_quantile

EXACT_LIMIT: Final = 40
"""Up to so many values in all, the test counts every arrangement instead of trusting the normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A mean that was measured, with its standard error; `n` independent values are behind it."""

    mean: float
    error: float
    n: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """`ratio` is after / before; `low` and `high` bound it."""

    ratio: float
    low: float
    high: float


def ratio_of_means(before: Measured, after: Measured, confidence: float) -> Effect | None:
    """With the interval of the log ratio (delta method), which is symmetric in the two; None if a mean is 0."""
    if not (before.mean > 0 and after.mean > 0):
        return None
    ratio = after.mean / before.mean
    parts = [(before.error / before.mean) ** 2, (after.error / after.mean) ** 2]
    spread = math.sqrt(sum(parts))
    if not math.isfinite(spread):
        return Effect(ratio=ratio, low=0.0, high=math.inf)
    degrees = _degrees(parts, [before.n, after.n])
    half = t_quantile(0.5 + confidence / 2, degrees) * spread if spread else 0.0
    return Effect(ratio=ratio, low=ratio * math.exp(-half), high=ratio * math.exp(half))


def _degrees(variances: Sequence[float], counts: Sequence[float]) -> float:
    """Of the sum of two variances (Welch and Satterthwaite)."""
    total = sum(variances)
    below = sum(v * v / (n - 1) for v, n in zip(variances, counts, strict=True) if n > 1)
    return total * total / below if below else 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTest:
    """`superiority` is the probability that a value of the second sample is greater than one of the first, ties
    counted half: 0.5 if neither is.
    """

    p_value: float
    superiority: float
    is_exact: bool


def mann_whitney(
    before: Histogram, after: Histogram, *, inflation: tuple[float, float] = (1.0, 1.0)
) -> RankTest | None:
    """Two-sided. `inflation` is how many values of each sample say as much as one independent value: of requests that
    queue behind each other it is above 1, and the plain test would find differences that are not there. None of an
    empty sample.
    """
    if not before.n or not after.n:
        return None
    groups = _tied_groups(before, after)
    wins = _wins(groups)
    superiority = wins / (before.n * after.n)
    if before.n + after.n <= EXACT_LIMIT and max(inflation) <= 1:
        return RankTest(p_value=_exact(groups, before.n, after.n), superiority=superiority, is_exact=True)
    n, m = before.n, after.n
    total = n + m
    ties = sum((a + b) ** 3 - (a + b) for a, b in groups) / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - ties)
    # An estimate from n values has the variance of 1/n: with n/f independent values it is f times that.
    share = (inflation[0] * m + inflation[1] * n) / total
    if variance <= 0:
        return RankTest(p_value=1.0, superiority=superiority, is_exact=False)
    z = max(abs(wins - n * m / 2) - 0.5, 0.0) / math.sqrt(variance * max(share, 1.0))
    p = min(1.0, 2 * (1 - NormalDist().cdf(z)))
    return RankTest(p_value=p, superiority=superiority, is_exact=False)


def _tied_groups(before: Histogram, after: Histogram) -> list[tuple[int, int]]:
    """How many values of each sample are in each bucket, in ascending order."""
    numbers = sorted({*before.counts, *after.counts})
    return [(before.counts.get(number, 0), after.counts.get(number, 0)) for number in numbers]


def _wins(groups: Sequence[tuple[int, int]]) -> float:
    """The pairs in which the second sample's value is greater; of ties a half."""
    wins, below = 0.0, 0
    for first, second in groups:
        wins += second * (below + first / 2)
        below += first
    return wins


def _exact(groups: Sequence[tuple[int, int]], n: int, m: int) -> float:
    """The share of all arrangements that are at least as far from the middle, ties included."""
    # By size of the first sample's part and twice the wins against it: the number of ways to get there.
    ways: dict[tuple[int, int], int] = {(0, 0): 1}
    for first, second in groups:
        size = first + second
        following: dict[tuple[int, int], int] = {}
        for (taken, wins), count in ways.items():
            for chosen in range(min(size, n - taken) + 1):
                others = size - chosen
                key = taken + chosen, wins + others * (2 * taken + chosen)
                following[key] = following.get(key, 0) + count * math.comb(size, chosen)
        ways = following
    middle, seen = n * m, 2 * _wins(groups)
    complete = {wins: count for (taken, wins), count in ways.items() if taken == n}
    far = sum(count for wins, count in complete.items() if abs(wins - middle) >= abs(seen - middle) - 1e-9)
    return far / math.comb(n + m, n)


def holm(p_values: Sequence[float]) -> list[float]:
    """The same tests, each corrected for how many there are: at most one false alarm in the whole table."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, least = [0.0] * len(p_values), 0.0
    for place, number in enumerate(order):
        least = max(least, min(1.0, p_values[number] * (len(p_values) - place)))
        corrected[number] = least
    return corrected
