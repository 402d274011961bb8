"""Retries: which errors are retried, how often, and after what delay."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from lmi_deploy.host.retry_policy import FailureCount, RetryPolicy
from lmi_deploy.ports.clock import Clock

TRANSFERS = RetryPolicy(attempts=6, longest_wait=30.0)
LOOK_UPS = RetryPolicy(attempts=4, longest_wait=30.0)
MAX_RETRY_AFTER = 3600.0
_RATE_LIMIT = re.compile(r";\s*r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)")


class RetryableError(Exception):
    """A failed attempt that may be repeated; `wait` is the delay that the server requests."""

    def __init__(self, why: str, *, wait: float | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.wait = wait


class Unreachable(RetryableError):
    """No connection could be made. `hopeless` if another attempt cannot help."""

    def __init__(self, why: str, *, hint: str, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hint = hint
        self.hopeless = hopeless


class HashMismatch(RetryableError):
    """The received bytes differ from the Hub's hash: `got` is their hash."""

    def __init__(self, why: str, *, got: str = "") -> None:
        super().__init__(why)
        self.got = got


class RetriesExhausted(Exception):
    """The last of `count` attempts failed, too."""

    def __init__(self, last: RetryableError, count: int) -> None:
        super().__init__(last.why)
        self.last = last
        self.count = count


class DownloadStopped(Exception):
    """The user stopped the command, or another file's failure made it pointless to continue."""


@dataclass(slots=True)
class RateLimiter:
    """Waiting, shared by all workers: if one is rate limited, the others wait, too."""

    clock: Clock
    random: Random = field(default_factory=Random)
    stop: threading.Event = field(default_factory=threading.Event)
    note: str = ""
    _until: float = 0.0

    def hold(self, seconds: float, note: str) -> None:
        self._until = max(self._until, self.clock.monotonic() + seconds)
        self.note = note

    def wait(self, seconds: float = 0.0) -> None:
        """Until `seconds` have passed and no worker is rate limited; in short steps, so that `stop` is noticed."""
        own = self.clock.monotonic() + seconds
        while (left := max(own, self._until) - self.clock.monotonic()) > 0:
            self.check()
            self.clock.sleep(min(left, 1.0))
        self.note = ""
        self.check()

    def check(self) -> None:
        if self.stop.is_set():
            raise DownloadStopped


class Attempts:
    """The attempts that the policy allows."""

    def __init__(self, rate_limiter: RateLimiter, policy: RetryPolicy = TRANSFERS) -> None:
        self._rate_limiter = rate_limiter
        self._policy = policy
        self._failures = FailureCount()

    def failed(self, error: RetryableError, *, gained: int = 0) -> None:
        """Count a failure and wait as long as is due, or raise RetriesExhausted."""
        failures = self._failures.add(gained)
        if not self._policy.allows(failures) or _is_permanent(error):
            raise RetriesExhausted(error, failures) from error
        if error.wait is not None:
            seconds = error.wait + self._rate_limiter.random.uniform(0.1, 1.0)
            self._rate_limiter.hold(seconds, f"waiting {seconds:.0f} s: {error.why}")
            self._rate_limiter.wait()
        else:
            self._rate_limiter.note = f"trying again: {error.why}"
            self._rate_limiter.wait(self._policy.delay(failures, self._rate_limiter.random))


def _is_permanent(error: RetryableError) -> bool:
    if isinstance(error, Unreachable):
        return error.hopeless
    return (error.wait or 0) > MAX_RETRY_AFTER


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the server accepts the next request: `RateLimit` when it is used up, else `Retry-After`."""
    limit = _RATE_LIMIT.search(headers.get("RateLimit", ""))
    if limit is not None and int(limit[1]) == 0:
        return float(limit[2])
    after = headers.get("Retry-After", "").strip()
    return float(after) if after.isdigit() else None
