"""Several workers at once, seen by one generator: it ticks while they work, and ends them when it is ended."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from types import TracebackType

from lmi_deploy.transfer.schedule import Schedule
from lmi_deploy.transfer.sending import Sending
from lmi_deploy.transfer.slabs import Slabs, Stopped

TICK = 0.2
FAREWELL = 5.0
"""Seconds that workers get to end the part at hand; they are daemons, so that no stalled one keeps the command."""


@dataclass(slots=True)
class Outcome:
    """A file that is done, or what one of its jobs raised."""

    sending: Sending
    raised: BaseException | None = None


@dataclass(slots=True)
class Crew:
    schedule: Schedule
    slabs: Slabs
    stop: threading.Event
    _said: queue.SimpleQueue[Outcome | None] = field(default_factory=queue.SimpleQueue)

    def run(self, workers: int) -> Generator[Outcome | None, None, None]:
        """Yields what became of each file, and None on every tick between."""
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        left = workers
        try:
            while left:
                try:
                    outcome = self._said.get(timeout=TICK)
                except queue.Empty:
                    yield None
                    continue
                if outcome is None:
                    left -= 1
                else:
                    yield outcome
        finally:
            self._end(threads)

    def _end(self, threads: list[threading.Thread]) -> None:
        self.stop.set()
        self.schedule.stop()
        self.slabs.stop()
        for thread in threads:
            thread.join(FAREWELL / len(threads))

    def _work(self) -> None:
        try:
            while self._one():
                pass
        except Stopped:
            pass
        finally:
            self._said.put(None)

    def _one(self) -> bool:
        # The buffer first, then the job: so the next part in line always has one, and nobody waits for a part that
        # waits for a buffer.
        slab = self.slabs.take()
        try:
            claimed = self.schedule.claim()
            if claimed is None:
                return False
            sending, job = claimed
            with _Caught(sending, self._said):
                job(slab)
            self.schedule.settle(sending)
            return True
        finally:
            slab.drop()


class _Caught:
    """Tells what a job raised, whatever it is; the file gives up. Nothing is swallowed: the generator raises it."""

    def __init__(self, sending: Sending, said: queue.SimpleQueue[Outcome | None]) -> None:
        self._sending = sending
        self._said = said

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if raised is not None:
            self._sending.give_up()
            if not isinstance(raised, Stopped):
                self._said.put(Outcome(self._sending, raised))
        elif self._sending.done is not None:
            self._said.put(Outcome(self._sending))
        return True
