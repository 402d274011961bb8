"""Trying again: what may be tried again, how often, and how long to wait before."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from lmi_deploy.ports.clock import Clock

LONGEST_WAIT = 30.0
LONGEST_ASKED = 3600.0
_RATE_LIMIT = re.compile(r";\s*r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)")


class Broken(Exception):
    """An attempt that did not succeed and may be made again; `wait` is what the server asks for."""

    def __init__(self, why: str, *, wait: float | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.wait = wait


class Unreachable(Broken):
    """No connection came about. `hopeless` where another attempt cannot help."""

    def __init__(self, why: str, *, hint: str, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hint = hint
        self.hopeless = hopeless


class Damaged(Broken):
    """Bytes came, and they are not what the Hub says: `got` is the hash that they have."""

    def __init__(self, why: str, *, got: str = "") -> None:
        super().__init__(why)
        self.got = got


class GaveUp(Exception):
    """The last of `count` attempts failed, too."""

    def __init__(self, last: Broken, count: int) -> None:
        super().__init__(last.why)
        self.last = last
        self.count = count


class Stopped(Exception):
    """The user ended the command, or another file's failure made going on pointless."""


@dataclass(slots=True)
class Pace:
    """Waiting, shared by all workers: one that is rate limited holds the others back, too."""

    clock: Clock
    random: Random = field(default_factory=Random)
    stop: threading.Event = field(default_factory=threading.Event)
    note: str = ""
    _until: float = 0.0

    def hold(self, seconds: float, note: str) -> None:
        self._until = max(self._until, self.clock.monotonic() + seconds)
        self.note = note

    def wait(self, seconds: float = 0.0) -> None:
        """Until `seconds` are over and nobody holds; in short naps, so that `stop` is seen."""
        own = self.clock.monotonic() + seconds
        while (left := max(own, self._until) - self.clock.monotonic()) > 0:
            self.check()
            self.clock.sleep(min(left, 1.0))
        self.note = ""
        self.check()

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped


class Attempts:
    """At most `limit` failures in a row; bytes that came, `enough` of them, begin a new row."""

    def __init__(self, pace: Pace, *, limit: int = 6, enough: int = 8 << 20) -> None:
        self._pace = pace
        self._limit = limit
        self._enough = enough
        self._failures = 0
        self._gained = 0

    def failed(self, broken: Broken, *, gained: int = 0) -> None:
        """Count a failure and wait as long as is due, or raise GaveUp."""
        self._gained += gained
        if self._gained >= self._enough:
            self._failures, self._gained = 0, 0
        self._failures += 1
        if self._failures >= self._limit or _is_hopeless(broken):
            raise GaveUp(broken, self._failures) from broken
        if broken.wait is not None:
            seconds = broken.wait + self._pace.random.uniform(0.1, 1.0)
            self._pace.hold(seconds, f"waiting {seconds:.0f} s: {broken.why}")
            self._pace.wait()
        else:
            self._pace.note = f"trying again: {broken.why}"
            self._pace.wait(self._backoff())

    def _backoff(self) -> float:
        longest = min(LONGEST_WAIT, 0.5 * 2**self._failures)
        return self._pace.random.uniform(longest / 2, longest)


def _is_hopeless(broken: Broken) -> bool:
    if isinstance(broken, Unreachable):
        return broken.hopeless
    return (broken.wait or 0) > LONGEST_ASKED


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds until the server wants to be asked again: `RateLimit` when spent, else `Retry-After`."""
    limit = _RATE_LIMIT.search(headers.get("RateLimit", ""))
    if limit is not None and int(limit[1]) == 0:
        return float(limit[2])
    after = headers.get("Retry-After", "").strip()
    return float(after) if after.isdigit() else None
