"""The only line with effects: intent before, outcome after each action of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.core.events import Event, Finished, Started
from lmi_deploy.core.plan import Plan, key, title
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.journal import Journal
from lmi_deploy.ports.target import Perform


def apply(plan: Plan, perform: Perform, journal: Journal, clock: Clock) -> Iterator[Event]:
    """Carry out the plan in its order; an error ends it where it happens, with everything before it recorded."""
    for action in plan.actions:
        begun = clock.monotonic()
        journal.intend(action)
        yield Started(key=key(action), title=title(action))
        outcome = yield from perform[type(action)](action)
        journal.done(action, outcome)
        seconds = round(clock.monotonic() - begun, 3)
        yield Finished(key=key(action), title=title(action), seconds=seconds, outcome=outcome)
