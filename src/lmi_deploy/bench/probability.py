"""The distributions behind confidence intervals: binomial, Student's t and normal, without a numeric library."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

_TINY: Final = 1e-300
_PRECISION: Final = 1e-14
_MAX_STEPS: Final = 20_000


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b): a probability."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # The continued fraction converges fast on this side of the mean only.
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's method for the continued fraction of the incomplete beta function (DLMF 8.17.22)."""
    c, d = 1.0, 1.0 / _nonzero(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _MAX_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            d = 1.0 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            change = c * d
            result *= change
        if abs(change - 1) < _PRECISION:
            break
    return result


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def binomial_at_most(k: int, n: int, p: float) -> float:
    """The probability of at most `k` successes in `n` trials."""
    if k < 0:
        return 0.0
    return 1.0 if k >= n else incomplete_beta(n - k, k + 1, 1 - p)


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: float) -> float:
    """Student's t; of very many degrees the normal distribution."""
    if degrees <= 0:
        return math.inf
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    normal = NormalDist().inv_cdf(probability)
    if degrees > 1e6:
        return normal
    low, high = 0.0, max(normal, 1.0)
    while _t_at_most(high, degrees) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_at_most(middle, degrees) < probability else (low, middle)
    return high


def _t_at_most(t: float, degrees: float) -> float:
    tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2
    return 1 - tail if t >= 0 else tail


def proportion_interval(count: int, of: int, confidence: float) -> tuple[float, float]:
    """Of a rate of which `count` of `of` were seen: Wilson's score interval."""
    if of == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate, share = count / of, z * z / of
    centre = (rate + share / 2) / (1 + share)
    half = z / (1 + share) * math.sqrt(rate * (1 - rate) / of + share / (4 * of))
    low = 0.0 if count == 0 else max(0.0, centre - half)
    return low, 1.0 if count == of else min(1.0, centre + half)
