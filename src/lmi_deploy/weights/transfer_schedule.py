"""Scheduling of files: large files take turns, a few at a time, and small ones use the remaining capacity."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from lmi_deploy.weights.upload_task import Job, UploadTask


class Schedule:
    """Threads claim jobs and settle them. A file leaves when it has no job to give and none that runs."""

    def __init__(self, files: Sequence[UploadTask], *, lanes: int) -> None:
        self._waiting = deque(files)
        self._lanes = lanes
        self._active: deque[UploadTask] = deque()
        self._running: dict[int, int] = {}
        self._change = threading.Condition()
        self._stopped = False

    def claim(self) -> tuple[UploadTask, Job] | None:
        """The next job; waits while running jobs may create new ones. None if nothing is left."""
        with self._change:
            while not self._stopped:
                if (found := self._next()) is not None:
                    task = found[0]
                    self._running[id(task)] = self._running.get(id(task), 0) + 1
                    return found
                if not self._running:
                    break
                self._change.wait()
            self._change.notify_all()
            return None

    def settle(self, task: UploadTask) -> None:
        with self._change:
            left = self._running.pop(id(task)) - 1
            if left:
                self._running[id(task)] = left
            if task not in self._active:
                self._active.appendleft(task)
            self._change.notify_all()

    def stop(self) -> None:
        with self._change:
            self._stopped = True
            self._change.notify_all()

    def _next(self) -> tuple[UploadTask, Job] | None:
        while True:
            while self._waiting and len(self._active) < self._lanes:
                self._active.append(self._waiting.popleft())
            if not self._active:
                return None
            task = self._active.popleft()
            if (job := task.next_job()) is not None:
                self._active.append(task)
                return task, job
