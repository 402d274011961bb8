"""The clock of the emulated services: as fast as configured, advanced by hand, never turned back.

Only waiting is shortened. While no task waits, and while real work is in progress (a download, a container that
starts, a job), it runs at the pace of the real clock, so that a limit in seconds keeps its meaning. Invocations do
not slow it down, or waiting would never be shortened under load: their limits are in real seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


class VirtualClock:
    """Seconds since 1970. `speed` emulated seconds go by in a real one."""

    def __init__(
        self, *, speed: float = 1.0, skew: float = 0.0, real: Callable[[], float] = time.monotonic
    ) -> None:
        self._real = real
        self._speed = speed
        self._at_work = 0
        self._waiting = 0
        self._origin = time.time() + skew
        self._since = real()
        self._turned = asyncio.Event()
        self._by_hand = 0.0

    @property
    def speed(self) -> float:
        return self._speed

    def now(self) -> float:
        return self._origin + (self._real() - self._since) * self._rate()

    def skew(self) -> float:
        """Seconds that it is ahead of the real clock."""
        return self.now() - time.time()

    def advance(self, seconds: float) -> None:
        """Advance the clock; everything that is due by then happens."""
        self._rebase()
        self._origin += max(0.0, seconds)
        self._by_hand += max(0.0, seconds)
        self._ring()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Real work: seconds are real ones until it is done."""
        self._shift(at_work=1)
        try:
            yield
        finally:
            self._shift(at_work=-1)

    async def sleep(self, seconds: float) -> None:
        await self.until(self.now() + seconds)

    async def until(self, moment: float) -> None:
        self._shift(waiting=1)
        try:
            await self.reach(moment)
        finally:
            self._shift(waiting=-1)

    async def reach(self, moment: float) -> None:
        """As `until`, for those for whom time does not go faster."""
        while (left := moment - self.now()) > 0:
            await self._turn(left / self._rate())

    async def lasting(self, seconds: float) -> None:
        """Wait real seconds, less those by which the clock is advanced by hand."""
        end = self._lived() + seconds
        while (left := end - self._lived()) > 0:
            await self._turn(left)

    async def within(self, seconds: float, work: Awaitable[T]) -> T:
        """The result of real work that keeps the clock at real pace; TimeoutError (the work cancelled) when it takes
        longer.
        """
        with self.at_work():
            return await self.limited(seconds, work)

    async def limited(self, seconds: float, work: Awaitable[T]) -> T:
        """As `within`, but the clock continues as if there were no such work."""
        task = asyncio.ensure_future(work)
        alarm = asyncio.ensure_future(self.lasting(seconds))
        try:
            await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise TimeoutError
        finally:
            for one in (task, alarm):
                one.cancel()
            await asyncio.gather(task, alarm, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def deadline(self, moment: float) -> AsyncIterator[None]:
        """TimeoutError in the body once the clock reaches `moment`."""
        async with asyncio.timeout(None) as scope:

            async def ring() -> None:
                await self.reach(moment)
                scope.reschedule(asyncio.get_running_loop().time())

            alarm = asyncio.ensure_future(ring())
            try:
                yield
            finally:
                alarm.cancel()

    async def _turn(self, seconds: float) -> None:
        """Until the clock is turned or changes its pace, real seconds at most."""
        turned = self._turned
        # Not wait_for: in Python 3.11 it loses a cancellation that arrives together with the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await turned.wait()

    def _lived(self) -> float:
        return self._real() + self._by_hand

    def _rate(self) -> float:
        return self._speed if self._waiting and not self._at_work else 1.0

    def _shift(self, *, at_work: int = 0, waiting: int = 0) -> None:
        self._rebase()
        before = self._rate()
        self._at_work += at_work
        self._waiting += waiting
        if self._rate() != before:
            self._ring()

    def _rebase(self) -> None:
        self._origin, self._since = self.now(), self._real()

    def _ring(self) -> None:
        self._turned.set()
        self._turned = asyncio.Event()
