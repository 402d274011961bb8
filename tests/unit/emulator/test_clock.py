"""The clock of the emulated services: accelerated during waits, real during work, never backwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lmi_deploy.emulator.clock import VirtualClock


class Real:
    """A real clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def passed(clock: VirtualClock, do: Callable[[], None]) -> float:
    before = clock.now()
    do()
    return clock.now() - before


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 5))


def test_idle_clock_runs_at_real_speed() -> None:
    real = Real()
    clock = VirtualClock(speed=100, real=real)
    assert passed(clock, lambda: setattr(real, "seconds", 3.0)) == pytest.approx(3)


def test_waiting_is_accelerated_and_work_is_not() -> None:
    async def scene() -> None:
        real = Real()
        clock = VirtualClock(speed=100, real=real)
        waiter = asyncio.create_task(clock.sleep(1_000_000))
        await asyncio.sleep(0)
        assert passed(clock, lambda: setattr(real, "seconds", 1.0)) == pytest.approx(100)
        with clock.at_work():
            assert passed(clock, lambda: setattr(real, "seconds", 2.0)) == pytest.approx(1)
        assert passed(clock, lambda: setattr(real, "seconds", 3.0)) == pytest.approx(100)
        clock.advance(1_000_000)
        await waiter

    run(scene())


def test_advance_wakes_only_sleepers_that_are_due() -> None:
    async def scene() -> None:
        clock = VirtualClock(speed=0.001)
        soon, late = (asyncio.create_task(clock.sleep(seconds)) for seconds in (10, 1000))
        await asyncio.sleep(0)
        clock.advance(11)
        await soon
        assert not late.done()
        clock.advance(-5000)
        assert not late.done()
        clock.advance(1000)
        await late

    run(scene())


def test_work_has_a_time_limit_on_the_virtual_clock() -> None:
    async def quick() -> str:
        return "done"

    async def scene() -> None:
        clock = VirtualClock(speed=1_000_000)
        assert await clock.within(60, quick()) == "done"
        slow = asyncio.create_task(clock.within(60, asyncio.sleep(60)))
        await asyncio.sleep(0.01)
        clock.advance(61)
        with pytest.raises(TimeoutError):
            await slow

    run(scene())


def test_invocation_limit_is_in_real_seconds_and_does_not_block_the_clock() -> None:
    async def scene() -> None:
        clock = VirtualClock(speed=1_000_000)
        invocation = asyncio.create_task(clock.limited(60, asyncio.sleep(60)))
        await clock.sleep(3600)
        assert not invocation.done()
        clock.advance(61)
        with pytest.raises(TimeoutError):
            await invocation

    run(scene())


def test_cancellation_during_an_advance_is_not_lost() -> None:
    async def scene() -> None:
        clock = VirtualClock(speed=0.001)
        sleeper = asyncio.create_task(clock.sleep(1000))
        await asyncio.sleep(0)
        clock.advance(1)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper

    run(scene())


def test_clock_starts_with_the_saved_skew() -> None:
    assert VirtualClock(skew=5000).skew() == pytest.approx(5000, abs=5)
