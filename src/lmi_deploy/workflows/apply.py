"""The only line with effects: intent before, outcome after each action of a plan."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from lmi_deploy.domain.events import Event, Finished, Notice, Started
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.errors import LmiError, LockLost
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.journal import Journal
from lmi_deploy.targets.target import Perform


def apply(plan: Plan, perform: Perform, journal: Journal, clock: Clock) -> Iterator[Event]:
    """Carry out the plan in order; the first error stops it, and all actions before it are recorded."""
    for action in plan.actions:
        yield from _execute(action, perform, journal, clock)


def apply_on(
    plan: Plan, perform: Perform, journal: Journal, clock: Clock, *, needs_all: Callable[[Action], bool]
) -> Generator[Event, None, tuple[LmiError, ...]]:
    """The same, but continue after failures; returns the errors. Actions that need all earlier ones are then left
    out.
    """
    failed: list[LmiError] = []
    for action in plan.actions:
        if failed and needs_all(action):
            continue
        try:
            yield from _execute(action, perform, journal, clock)
        except LockLost:
            raise
        except LmiError as error:
            failed.append(error)
            yield Notice(text=f"not done: {action.title}: {error.message}")
    return tuple(failed)


def _execute(action: Action, perform: Perform, journal: Journal, clock: Clock) -> Iterator[Event]:
    started = clock.monotonic()
    journal.begin(action)
    yield Started(key=action.key, title=action.title, phase=action.phase)
    outcome = yield from perform[type(action)](action)
    journal.complete(action, outcome)
    seconds = round(clock.monotonic() - started, 3)
    yield Finished(key=action.key, title=action.title, phase=action.phase, seconds=seconds, outcome=outcome)
