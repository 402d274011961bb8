"""Work in progress: an iterator of events whose end is a result."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Generic, Self, TextIO, TypeVar

from lmi_deploy.api.session import explained
from lmi_deploy.domain.events import Event
from lmi_deploy.ui.text_view import HumanView

T = TypeVar("T")
Watch = Callable[[Event], None]


class Run(Generic[T]):
    """The steps of one call, which happen as they are iterated over; `result()` makes those that are left.

    Ctrl-C (or "interrupt the kernel") during a step raises `Interrupted`, which says what exists; the same call
    continues later. A run that is left early, by `break` or by `close()`, stops after its step and gives back its lock.
    """

    def __init__(self, name: str, steps: Generator[Event, None, T]) -> None:
        self._name, self._steps = name, steps
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._is_begun = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        self._is_begun = True
        try:
            with explained():
                return next(self._steps)
        except StopIteration as end:
            if not self._values and self._error is None:
                self._values.append(end.value)
            raise
        except BaseException as error:
            self._error = error
            raise

    def result(self, progress: Watch | None = None) -> T:
        """Make the steps that are left; `progress` (such as `lmi.show`) gets each event."""
        for event in self:
            if progress is not None:
                self._watched(event, progress)
        if not self._values:
            assert self._error is not None
            raise self._error
        return self._values[0]

    def close(self) -> None:
        """Stop after the current step, and give back the lock. What was done is recorded."""
        self._is_begun = True
        self._steps.close()
        if not self._values and self._error is None:
            self._error = RuntimeError(f"{self._name} was closed before its end: call it again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "complete" if self._values else "failed" if self._error else "not complete"
        return f"<{self._name}: {state}>"

    def __del__(self) -> None:
        if not getattr(self, "_is_begun", True):
            text = f"{self._name} did nothing: iterate over its events, or call its .result()"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _watched(self, event: Event, progress: Watch) -> None:
        """Ctrl-C may come while an event is shown: the step then says what exists, as if it had come to it."""
        try:
            progress(event)
        except KeyboardInterrupt as interrupt:
            try:
                with explained():
                    self._steps.throw(interrupt)
            except BaseException as error:
                self._error = error
                raise
            raise


def show(event: Event) -> None:
    """Print an event to stderr, as `lmi up` does without a terminal: a line for each step."""
    _view(sys.stderr).show(event)


@lru_cache(maxsize=1)
def _view(story: TextIO) -> HumanView:
    return HumanView(sys.stdout, story, live=False)
