"""Several workers, driven by one generator: it yields regularly while they work, and stops them when it is closed."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from types import TracebackType

from lmi_deploy.errors import AccessError, LmiError, NotFound
from lmi_deploy.sources.hub.retry import DownloadStopped

TICK = 0.2
SHUTDOWN_TIMEOUT = 2.0
"""Seconds for workers to exit by themselves; they are daemons, so that a stalled one does not block the exit."""

Task = Callable[[], None]


class ThreadOutcome:
    """The result of one task: nothing, or the exception that it raised."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.raised: BaseException | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.raised = raised
        return True

    def error(self) -> LmiError | None:
        """The failure to report at the end. Raises at once what would also stop the other tasks: a
        refusal, or a bug.
        """
        match self.raised:
            case None | DownloadStopped():
                return None
            case AccessError() | NotFound():
                raise self.raised
            case LmiError() as failure:
                return failure
            case bug:
                raise bug


def run_all(
    tasks: Mapping[str, Task], *, workers: int, stop: threading.Event
) -> Generator[ThreadOutcome | None, None, None]:
    """Run the tasks in their order, `workers` at a time. Yields each outcome, and None on every tick between."""
    waiting = deque(tasks.items())
    done: queue.SimpleQueue[ThreadOutcome] = queue.SimpleQueue()
    threads = [
        threading.Thread(target=_work, args=(waiting, done, stop), daemon=True)
        for _ in range(min(workers, len(tasks)))
    ]
    for thread in threads:
        thread.start()
    try:
        yield from _outcomes(done, len(tasks))
    finally:
        stop.set()
        for thread in threads:
            thread.join(SHUTDOWN_TIMEOUT / len(threads))


def _work(
    waiting: deque[tuple[str, Task]], done: queue.SimpleQueue[ThreadOutcome], stop: threading.Event
) -> None:
    while not stop.is_set():
        try:
            name, task = waiting.popleft()
        except IndexError:
            return
        outcome = ThreadOutcome(name)
        with outcome:
            task()
        done.put(outcome)


def _outcomes(
    done: queue.SimpleQueue[ThreadOutcome], count: int
) -> Generator[ThreadOutcome | None, None, None]:
    while count:
        try:
            outcome = done.get(timeout=TICK)
        except queue.Empty:
            yield None
            continue
        count -= 1
        yield outcome
