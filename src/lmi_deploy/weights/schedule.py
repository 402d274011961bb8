"""Which file's turn it is: large files take turns, a few at a time, and small ones fill what is left."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from lmi_deploy.weights.upload_task import Job, Sending


class Schedule:
    """Threads claim jobs and settle them. A file leaves when it has no job to give and none that runs."""

    def __init__(self, files: Sequence[Sending], *, lanes: int) -> None:
        self._waiting = deque(files)
        self._lanes = lanes
        self._active: deque[Sending] = deque()
        self._running: dict[int, int] = {}
        self._change = threading.Condition()
        self._stopped = False

    def claim(self) -> tuple[Sending, Job] | None:
        """The next job; waits while running ones may bring new ones about. None when nothing is left."""
        with self._change:
            while not self._stopped:
                if (found := self._next()) is not None:
                    sending = found[0]
                    self._running[id(sending)] = self._running.get(id(sending), 0) + 1
                    return found
                if not self._running:
                    break
                self._change.wait()
            self._change.notify_all()
            return None

    def settle(self, sending: Sending) -> None:
        with self._change:
            left = self._running.pop(id(sending)) - 1
            if left:
                self._running[id(sending)] = left
            if sending not in self._active:
                self._active.appendleft(sending)
            self._change.notify_all()

    def stop(self) -> None:
        with self._change:
            self._stopped = True
            self._change.notify_all()

    def _next(self) -> tuple[Sending, Job] | None:
        while True:
            while self._waiting and len(self._active) < self._lanes:
                self._active.append(self._waiting.popleft())
            if not self._active:
                return None
            sending = self._active.popleft()
            if (job := sending.next_job()) is not None:
                self._active.append(sending)
                return sending, job
