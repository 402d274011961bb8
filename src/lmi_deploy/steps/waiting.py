"""The end of an `up` that was detached or broken off: waited for, asked, settled. And the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmi_deploy.core.cloud_actions import AwaitService
from lmi_deploy.core.events import Event, Finished
from lmi_deploy.core.observed import Observed
from lmi_deploy.core.plan import Plan
from lmi_deploy.core.record import DeploymentRef, Generation
from lmi_deploy.decide.agreement import require_agreed
from lmi_deploy.decide.diff import rollback, waiting
from lmi_deploy.errors import LmiError
from lmi_deploy.steps.affording import require_affordable_generation
from lmi_deploy.steps.apply import apply
from lmi_deploy.steps.bringing import split
from lmi_deploy.steps.costs import interrupted
from lmi_deploy.steps.deps import Deps
from lmi_deploy.steps.diagnose import explain
from lmi_deploy.steps.locked import locked

_BACK = "what was begun is recorded: `lmi status` shows it, `lmi rollback` goes on"


def wait(ref: DeploymentRef, deps: Deps, *, timeout: int | None) -> Iterator[Event]:
    """Go on with what the record says was begun; nothing where nothing is under way. `timeout` in seconds."""
    target = deps.targets[ref.target]
    seen = target.observe(ref)
    if waiting(seen, timeout=timeout)[0].empty:
        return
    with locked(seen.ref, deps):
        plan, coming = waiting(target.observe(seen.ref), timeout=timeout)
        try:
            yield from _bring(seen.ref, plan, coming, deps)
        except KeyboardInterrupt:
            raise interrupted(ref, deps, hint="it goes on without us: `lmi wait` waits again") from None


def prepare_rollback(
    ref: DeploymentRef, deps: Deps, to: int = 0, *, max_hourly: float | None = None
) -> tuple[DeploymentRef, Plan, str]:
    """What going back would do, and the name of the generation. NotFound where there is no earlier one, Refused where
    it may cost more than `max_hourly`.

    `to`: its number, counted back from the one that serves; 0: the one before.
    """
    seen = _confirmed(ref, deps)
    plan, generation = rollback(seen, to)
    cost = require_affordable_generation(generation, seen.ref, deps, max_hourly)
    return seen.ref, replace(plan, figures=(*plan.figures, ("cost", cost))), generation.server


def _confirmed(ref: DeploymentRef, deps: Deps) -> Observed:
    target = deps.targets[ref.target]
    return target.confirm(target.observe(ref))


def roll_back(ref: DeploymentRef, deps: Deps, server: str, shown: Plan) -> Iterator[Event]:
    """Point the endpoint at the generation of this name, ask it, and settle it as the current one.

    Refused where that is no longer what was `shown`."""
    with locked(ref, deps):
        plan, previous = rollback(_confirmed(ref, deps), server)
        require_agreed(shown, plan)
        deps.journal(ref).expect(previous)
        try:
            yield from _bring(ref, plan, previous, deps)
        except KeyboardInterrupt:
            raise interrupted(ref, deps, hint=_BACK) from None


def _bring(ref: DeploymentRef, plan: Plan, coming: Generation | None, deps: Deps) -> Iterator[Event]:
    journal, took = deps.journal(ref), 0
    perform = deps.targets[ref.target].ending(ref)
    before, after = split(plan)
    try:
        for event in apply(before, perform, journal, deps.clock):
            if isinstance(event, Finished) and event.key.startswith(AwaitService.__name__):
                took = round(event.seconds)
            yield event
    except LmiError as error:
        explain(error, str(coming.summary.get("engine", "")) if coming else "")
        raise
    if coming is not None:
        since = deps.clock.now().isoformat(timespec="seconds")
        journal.settle(replace(coming, since=since, took=coming.took or took))
    yield from apply(after, perform, journal, deps.clock)
