"""A histogram of bounded relative error that can be merged: the form in which a report keeps its samples.

The buckets are those of HdrHistogram at three digits: 2048 exact units, then 1024 buckets for each power of two, so
that a value is off by at most 0.05 %. Count, sum, least, most and deviation stay exact. Its own few lines, because
the package `hdrhistogram` brings a compiled extension for what a run does once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

UNIT: Final = 1e-6
"""Of seconds: a microsecond. Every histogram has this unit, so that any two can be merged."""
_PER_SECOND: Final = 1e6
_HALF: Final = 1024
_SHIFT: Final = 10
_BLOCK: Final = 65_536


def _bucket(units: int) -> int:
    """The number of the bucket of a value: values below 2048 have their own."""
    power = units.bit_length() - _SHIFT - 1
    return units if power <= 0 else power * _HALF + (units >> power)


def _middle(bucket: int) -> float:
    """The middle of a bucket, in units."""
    power = max(bucket // _HALF - 1, 0)
    low = (bucket - power * _HALF) << power
    return low + ((1 << power) - 1) / 2


@dataclass(slots=True, kw_only=True)
class Histogram:
    """Of values that are not negative. `counts` by bucket; `squares` is the sum of squared distances from the mean."""

    counts: dict[int, int] = field(default_factory=dict)
    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Histogram:
        """In blocks, so that the gaps of millions of streams need no list of their own."""
        made, rest = cls(), iter(values)
        while block := [*islice(rest, _BLOCK)]:
            made = made.merged(cls._of_block(block))
        return made

    @classmethod
    def _of_block(cls, values: list[float]) -> Histogram:
        kept = [value for value in values if value >= 0 and math.isfinite(value)]
        if not kept:
            return cls()
        total = math.fsum(kept)
        mean = total / len(kept)
        counts: dict[int, int] = {}
        # Most values of a block share their microsecond with others: fewer buckets to compute.
        for units, count in Counter([round(value * _PER_SECOND) for value in kept]).items():
            number = _bucket(units)
            counts[number] = counts.get(number, 0) + count
        return cls(
            counts=counts,
            n=len(kept),
            total=total,
            squares=math.fsum((value - mean) ** 2 for value in kept),
            low=min(kept),
            high=max(kept),
        )

    def merged(self, other: Histogram) -> Histogram:
        """Both samples as one; Chan's formula keeps the deviation exact."""
        if not self.n or not other.n:
            return other if not self.n else self
        counts = dict(self.counts)
        for number, count in other.counts.items():
            counts[number] = counts.get(number, 0) + count
        apart = other.mean - self.mean
        n = self.n + other.n
        return Histogram(
            counts=counts,
            n=n,
            total=self.total + other.total,
            squares=self.squares + other.squares + apart * apart * self.n * other.n / n,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
        )

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation of the sample (n - 1); nan below two values."""
        return math.sqrt(self.squares / (self.n - 1)) if self.n > 1 else math.nan

    def values(self) -> Iterator[tuple[float, int]]:
        """Each distinct value in ascending order, with its count. Least and most are exact."""
        for number in sorted(self.counts):
            yield self._value(number), self.counts[number]

    def ranked(self, rank: int) -> float:
        """The order statistic of that rank, from 1 to n."""
        if rank <= 1:
            return self.low
        if rank >= self.n:
            return self.high
        seen = 0
        for number in sorted(self.counts):
            seen += self.counts[number]
            if seen >= rank:
                return self._value(number)
        raise AssertionError("the counts do not add up to n")

    def _value(self, number: int) -> float:
        return min(max(_middle(number) * UNIT, self.low), self.high)
