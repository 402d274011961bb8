"""Whether the load generator itself keeps up: lag of its event loop, its share of a core, jumps of the wall clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from lmi_deploy.bench.report import ClientFigures

_PROBE: Final = 0.01


class HealthProbe:
    """Runs beside the requests in their event loop. `restart` begins the measured part. `wall`: the wall clock."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall
        self._lags: list[float] = []
        self._task: asyncio.Task[None] | None = None
        self.restart()

    def restart(self) -> None:
        self._lags.clear()
        self._began, self._cpu, self._wall = time.perf_counter(), time.process_time(), self._wall_clock()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            due = time.perf_counter() + _PROBE
            await asyncio.sleep(_PROBE)
            self._lags.append(max(0.0, time.perf_counter() - due))

    def stop(self) -> ClientFigures:
        if self._task is not None:
            self._task.cancel()
        passed = max(time.perf_counter() - self._began, 1e-9)
        return ClientFigures(
            loop_lag_p99=p99(self._lags),
            cpu=(time.process_time() - self._cpu) / passed,
            clock_jump=self._wall_clock() - self._wall - passed,
        )


def p99(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)] if ordered else None
