"""When a run begins to count, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Final

STEADY: Final = 0.1
"""Two groups of latencies whose means differ by less: the warm-up is over."""
GROUP: Final = 10
ERRORS_FROM: Final = 20
"""Requests after which the share of errors is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Whatever comes first; times in seconds. `warmup_requests`: None warms up until latencies are steady."""

    seconds: float
    requests: int | None = None
    error_share: float = 0.5
    warmup_seconds: float = 30.0
    warmup_requests: int | None = None
    until_steady: bool = True
    """Without a number of requests; else the warm-up takes all of its seconds."""
    seconds_after: float = 300.0
    """For requests that are still running at the end."""

    @property
    def longest_warmup(self) -> float:
        """A number of requests may take as long as the run itself."""
        if self.warmup_requests is None:
            return self.warmup_seconds
        return max(self.warmup_seconds, self.seconds) if self.warmup_requests else 0.0

    @property
    def longest(self) -> float:
        return self.longest_warmup + self.seconds + self.seconds_after


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """For the live view. `latency`: the mean of the last requests, 0 before the first."""

    elapsed: float
    """Since the start of the run; `seconds`: since the last phase began."""
    seconds: float
    completed: int
    failed: int
    in_flight: int
    is_warming: bool
    latency: float


class RunPhases:
    """Counts requests, and decides from them. Times are those of the caller's clock."""

    def __init__(self, limits: RunLimits, concurrency: int, began: float) -> None:
        self._limits = limits
        self._group = max(GROUP, concurrency)
        self._began = began
        self._latencies: list[float] = []
        self.is_warm = limits.warmup_requests == 0
        self.warm_since = began
        self.measured = self.completed = self.failed = self.in_flight = 0

    def may_begin(self, now: float) -> str:
        """Empty, or why no further request is sent."""
        if not self.is_warm and now - self._began > self._limits.longest_warmup:
            # The agreed time, not that of this look: a ramp begins at it, on several machines at once.
            self._warmed(self._began + self._limits.longest_warmup)
        if self.is_warm and now - self.warm_since >= self._limits.seconds:
            return "the time is over"
        if self.has_sent_all:
            return "the requests are sent"
        return ""

    @property
    def has_sent_all(self) -> bool:
        return self._limits.requests is not None and self.measured >= self._limits.requests

    def begin(self) -> bool:
        """A request is sent; whether it belongs to the warm-up."""
        self.in_flight += 1
        self.measured += self.is_warm
        return not self.is_warm

    def end(self, latency: float | None, now: float) -> bool:
        """A response has arrived, None: it failed. Whether too many of them have."""
        self.completed += 1
        if latency is None:
            self.failed += 1
        else:
            self._latencies.append(latency)
        if not self.is_warm and self._is_steady():
            self._warmed(now)
        return self._has_too_many_errors()

    def fail(self) -> bool:
        """A response that counted as a success has failed after all. Whether too many have."""
        self.failed += 1
        return self._has_too_many_errors()

    def _has_too_many_errors(self) -> bool:
        return self.completed >= ERRORS_FROM and self.failed > self._limits.error_share * self.completed

    def progress(self, now: float) -> RunProgress:
        latest = self._latencies[-self._group :]
        return RunProgress(
            elapsed=now - self._began,
            seconds=now - self.warm_since,
            completed=self.completed,
            failed=self.failed,
            in_flight=self.in_flight,
            is_warming=not self.is_warm,
            latency=fmean(latest) if latest else 0.0,
        )

    def _is_steady(self) -> bool:
        if self._limits.warmup_requests is not None:
            return self.completed >= self._limits.warmup_requests
        done, size = len(self._latencies), self._group
        if not self._limits.until_steady or done < 2 * size or done % size:
            return False
        before, after = fmean(self._latencies[-2 * size : -size]), fmean(self._latencies[-size:])
        return abs(after - before) <= STEADY * before

    def _warmed(self, now: float) -> None:
        self.is_warm, self.warm_since = True, now
