"""Several threads, driven by one generator: it yields regularly while they work, and stops them when it is closed."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, TypeVar

TICK = 0.2
Item = TypeVar("Item")
Result = TypeVar("Result")


def _never() -> bool:
    return False


class _Ended:
    """Put by a thread that has no more to do."""


@dataclass(slots=True)
class WorkerPool(Generic[Result]):
    """Threads that call `step` until it returns False; what a step passes to its argument is yielded.

    They are daemons, so that a stalled one does not block the exit. `stop` makes them end soon.
    """

    step: Callable[[Callable[[Result], None]], bool]
    stop: Callable[[], None]
    shutdown_seconds: float = 2.0
    needs_more: Callable[[], bool] = _never
    """Whether more threads would help; asked on every tick."""
    _threads: list[threading.Thread] = field(default_factory=list)
    _results: queue.SimpleQueue[Result | _Ended] = field(default_factory=queue.SimpleQueue)

    def run(self, first: int, most: int) -> Generator[Result | None, None, None]:
        """Yields each result, and None on every tick between. `first` threads, later up to `most`."""
        ended, next_poll = 0, time.monotonic() + TICK
        self._start(min(first, most))
        try:
            while ended < len(self._threads):
                try:
                    result = self._results.get(timeout=TICK)
                except queue.Empty:
                    yield None
                else:
                    if isinstance(result, _Ended):
                        ended += 1
                    else:
                        yield result
                if not ended and time.monotonic() >= next_poll:
                    next_poll = time.monotonic() + TICK
                    existing = len(self._threads)
                    if existing < most and self.needs_more():
                        self._start(min(existing, most - existing))
        finally:
            self.stop()
            for thread in self._threads:
                thread.join(self.shutdown_seconds / len(self._threads))

    def _start(self, count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=self._work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _work(self) -> None:
        try:
            while self.step(self._results.put):
                pass
        finally:
            self._results.put(_Ended())


class TaskResult:
    """The result of one task: nothing, or the exception that it raised. Nothing is swallowed: the caller reads it."""

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


def run_tasks(
    tasks: Mapping[str, Callable[[], None]], *, workers: int, stop: threading.Event
) -> Generator[TaskResult | None, None, None]:
    """Run the tasks in their order, `workers` at a time. Yields each result, and None on every tick between."""
    waiting = deque(tasks.items())

    def step(put: Callable[[TaskResult], None]) -> bool:
        if stop.is_set():
            return False
        try:
            name, task = waiting.popleft()
        except IndexError:
            return False
        result = TaskResult(name)
        with result:
            task()
        put(result)
        return True

    return WorkerPool(step, stop.set).run(workers, len(tasks))


def run_each(
    work: Callable[[Item], Result], items: Iterable[Item], *, workers: int
) -> Generator[tuple[Item, Result], None, None]:
    """Each item with its result, in the order in which they end. Raises the error of the first that fails, and cancels
    those that wait.
    """
    pool = ThreadPoolExecutor(workers)
    try:
        running = {pool.submit(work, item): item for item in items}
        for ended in as_completed(running):
            yield running[ended], ended.result()
    finally:
        pool.shutdown(cancel_futures=True)
