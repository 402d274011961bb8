"""The context of commands: the view for their output and the ports that they use."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import click

from lmi_deploy.domain.events import Event
from lmi_deploy.errors import LmiError
from lmi_deploy.ui.view import View
from lmi_deploy.ui.view_selection import open_view
from lmi_deploy.workflows.dependencies import Dependencies, LockWait
from lmi_deploy.workflows.interruption import recorded

if TYPE_CHECKING:
    from lmi_deploy.domain.plan import Estimate, Plan

T = TypeVar("T")
LOCK_TIMEOUT: Final = "lmi.lock_timeout"
"""Where click's context has the seconds of `--lock-timeout`."""


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Opened once a command."""

    view: View
    deps: Dependencies

    def show_plan(self, plan: Plan, estimate: Estimate, notices: Iterable[str]) -> None:
        """What the user is asked about."""
        self.view.plan(plan, estimate)
        for notice in notices:
            self.view.note(f"  {notice}")

    def show_events(self, events: Iterable[Event]) -> None:
        """Show events as they happen. A failure does not repeat log lines that were shown a moment ago."""
        try:
            for event in events:
                self.view.show(event)
        except KeyboardInterrupt:
            if isinstance(events, Generator):
                # Ctrl-C may have come while an event was shown: the generator reports what exists.
                events.throw(KeyboardInterrupt())
            raise
        except LmiError as error:
            error.details = self.view.unshown_lines(error.details)
            raise
        finally:
            self.view.close()

    def run(self, events: Iterable[Event]) -> None:
        """The same, for recorded actions: after Ctrl-C the message says whether anything is recorded yet."""
        self.show_events(recorded(events))

    def outcome(self, events: Generator[Event, None, T]) -> T:
        """The same, for a generator that returns a value."""
        values: list[T] = []

        def kept() -> Iterator[Event]:
            values.append((yield from events))

        self.show_events(kept())
        return values[0]


def open_context(*, as_json: bool) -> CommandContext:
    """The view, and the Dependencies of `composition`, or those that a test put on the context."""
    context = click.get_current_context(silent=True)
    given = context.find_object(DependenciesFactory) if context else None
    view = open_view(as_json=as_json)
    if given is not None:
        deps = given.make()
    else:
        from lmi_deploy.composition.local import wire

        deps = wire(notify=view.note)
    seconds = context.meta.get(LOCK_TIMEOUT, 0) if context else 0
    return CommandContext(view, replace(deps, lock_wait=LockWait(seconds=seconds, notify=view.note)))


@dataclass(frozen=True, slots=True)
class DependenciesFactory:
    """Tests pass one as the context's object, in place of `composition`."""

    make: Callable[[], Dependencies]
