"""What a command says when it ends early: what is recorded, what still exists, and what it costs."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.events import Event, Started
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import RECORDED, Interrupted, LmiError
from lmi_deploy.workflows.dependencies import Dependencies


def interrupted(ref: DeploymentRef, deps: Dependencies, *, hint: str) -> Interrupted:
    """The error with what still exists, and what it costs."""
    status = remaining(ref, deps)
    return Interrupted("interrupted" + (f": {status}" if status else ""), hint=hint)


def remaining(ref: DeploymentRef, deps: Dependencies) -> str:
    """What still exists, and its cost, in words; empty if nothing costs."""
    target = deps.targets[ref.target]
    try:
        return target.remaining_cost(target.observe(ref))
    except LmiError:
        return "the deployment could not be read"


def recorded(events: Iterable[Event]) -> Generator[Event, None, None]:
    """The events of recorded actions: after Ctrl-C the error says whether anything is recorded yet."""
    started: set[Phase] = set()
    try:
        for event in events:
            if isinstance(event, Started):
                started.add(event.phase)
            try:
                yield event
            except KeyboardInterrupt as interrupt:
                if isinstance(events, Generator):
                    # It came while the event was shown: the generator reports what exists.
                    events.throw(interrupt)
                raise
    except KeyboardInterrupt:
        if not started:
            raise
        founded = started == {Phase.BOOTSTRAP}
        hint = "only the bucket was created. Run the command again" if founded else RECORDED
        raise Interrupted("interrupted", hint=hint) from None
