"""The workers of an upload.

They are few at first, and more are added while the processors are idle, because the network is slower: otherwise more
workers only compete for Python's lock (`python -m benchmarks transfer`). Busy with other programs counts as busy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import TracebackType

from lmi_deploy.host.cpu_times import CpuIdleMeter, usable_processors
from lmi_deploy.host.worker_pool import WorkerPool
from lmi_deploy.weights.buffer_pool import BufferPool, PoolStopped
from lmi_deploy.weights.transfer_schedule import Schedule
from lmi_deploy.weights.upload_task import UploadTask

SHUTDOWN_TIMEOUT = 5.0
"""Seconds for workers to finish the current part; they are daemons, so that a stalled one does not block the exit."""


PER_CORE = 2
"""Initial number of workers per processor."""
SPARE = 0.4
"""Share of the processors' time: if this much is idle, more workers are started."""


@dataclass(slots=True)
class TaskOutcome:
    """A finished file, or the exception of one of its jobs."""

    task: UploadTask
    raised: BaseException | None = None


@dataclass(slots=True)
class UploadWorkers:
    schedule: Schedule
    buffers: BufferPool
    stop: threading.Event
    idleness: Callable[[], float] = field(default_factory=CpuIdleMeter)
    first: int = field(default_factory=lambda: max(4, PER_CORE * len(usable_processors())))

    def run(self, most: int) -> Generator[TaskOutcome | None, None, None]:
        """Yields the result of each file, and None on every tick between."""
        pool = WorkerPool(self._step, self._end, SHUTDOWN_TIMEOUT, lambda: self.idleness() > SPARE)
        return pool.run(self.first, most)

    def _end(self) -> None:
        self.stop.set()
        self.schedule.stop()
        self.buffers.stop()

    def _step(self, put: Callable[[TaskOutcome], None]) -> bool:
        # The buffer first, then the job: so the next part in order always has one, and no part waits for a part that
        # waits for a buffer.
        try:
            buffer = self.buffers.take()
        except PoolStopped:
            return False
        try:
            claimed = self.schedule.claim()
            if claimed is None:
                return False
            task, job = claimed
            with _FailedTask(task, put):
                job(buffer)
            self.schedule.settle(task)
            return True
        finally:
            buffer.drop()


class _FailedTask:
    """Returns the exception that a job raised; the file fails. Nothing is swallowed: the generator raises it."""

    def __init__(self, task: UploadTask, put: Callable[[TaskOutcome], None]) -> None:
        self._task = task
        self._put = put

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if raised is not None:
            self._task.give_up()
            if not isinstance(raised, PoolStopped):
                self._put(TaskOutcome(self._task, raised))
        elif self._task.done is not None:
            self._put(TaskOutcome(self._task))
        return True
