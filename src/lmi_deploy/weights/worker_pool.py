"""Several workers, driven by one generator: it yields regularly while they work, and stops them when it is closed.

They are few at first, and more are added while the processors wait for the network: otherwise more workers only
compete for Python's lock (`python -m benchmarks transfer`).
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import TracebackType

from lmi_deploy.weights.buffer_pool import BufferPool, PoolStopped
from lmi_deploy.weights.schedule import Schedule
from lmi_deploy.weights.upload_task import UploadTask

TICK = 0.2
SHUTDOWN_TIMEOUT = 5.0
"""Seconds for workers to finish the current part; they are daemons, so that a stalled one does not block the exit."""


PER_CORE = 2
"""Initial number of workers per processor."""
SPARE = 0.4
"""Share of the processors' time: if this much is unused, more workers may be started."""


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CpuIdleMeter:
    """The share of the processors' time that this process did not use since the last call."""

    def __init__(self) -> None:
        self._count = processors()
        self._at, self._used = time.monotonic(), time.process_time()

    def __call__(self) -> float:
        before, used = self._at, self._used
        self._at, self._used = time.monotonic(), time.process_time()
        passed = (self._at - before) * self._count
        return 1.0 - (self._used - used) / passed if passed else 0.0


@dataclass(slots=True)
class TaskOutcome:
    """A finished file, or the exception of one of its jobs."""

    task: UploadTask
    raised: BaseException | None = None


@dataclass(slots=True)
class WorkerPool:
    schedule: Schedule
    buffers: BufferPool
    stop: threading.Event
    idleness: Callable[[], float] = field(default_factory=CpuIdleMeter)
    first: int = field(default_factory=lambda: max(4, PER_CORE * processors()))
    _threads: list[threading.Thread] = field(default_factory=list)
    _results: queue.SimpleQueue[TaskOutcome | None] = field(default_factory=queue.SimpleQueue)

    def run(self, most: int) -> Generator[TaskOutcome | None, None, None]:
        """Yields the result of each file, and None on every tick between."""
        ended, next_poll = 0, time.monotonic() + TICK
        self._start(min(self.first, most))
        try:
            while ended < len(self._threads):
                try:
                    outcome = self._results.get(timeout=TICK)
                except queue.Empty:
                    yield None
                else:
                    if outcome is None:
                        ended += 1
                    else:
                        yield outcome
                if not ended and time.monotonic() >= next_poll:
                    next_poll = time.monotonic() + TICK
                    self._grow(most)
        finally:
            self._end()

    def _start(self, count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=self._work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _grow(self, most: int) -> None:
        now = len(self._threads)
        if now < most and self.idleness() > SPARE:
            self._start(min(now, most - now))

    def _end(self) -> None:
        self.stop.set()
        self.schedule.stop()
        self.buffers.stop()
        for thread in self._threads:
            thread.join(SHUTDOWN_TIMEOUT / len(self._threads))

    def _work(self) -> None:
        try:
            while self._one():
                pass
        except PoolStopped:
            pass
        finally:
            self._results.put(None)

    def _one(self) -> bool:
        # The buffer first, then the job: so the next part in order always has one, and no part waits for a part that
        # waits for a buffer.
        buffer = self.buffers.take()
        try:
            claimed = self.schedule.claim()
            if claimed is None:
                return False
            task, job = claimed
            with _FailedTask(task, self._results):
                job(buffer)
            self.schedule.settle(task)
            return True
        finally:
            buffer.drop()


class _FailedTask:
    """Returns the exception that a job raised; the file fails. Nothing is swallowed: the generator raises it."""

    def __init__(self, task: UploadTask, output: queue.SimpleQueue[TaskOutcome | None]) -> None:
        self._task = task
        self._results = output

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if raised is not None:
            self._task.give_up()
            if not isinstance(raised, PoolStopped):
                self._results.put(TaskOutcome(self._task, raised))
        elif self._task.done is not None:
            self._results.put(TaskOutcome(self._task))
        return True
