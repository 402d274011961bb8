"""Complete an `up` that was detached or interrupted: wait, probe, settle. Also for a rollback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.events import Event, Finished
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.record import DeploymentRef, Generation
from lmi_deploy.errors import LmiError
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deploy import split
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.error_diagnosis import explain
from lmi_deploy.workflows.interruption import interrupted


def wait(ref: DeploymentRef, deps: Dependencies, *, timeout: int | None) -> Iterator[Event]:
    """Continue what the record says was started; does nothing if nothing is in progress. `timeout` in seconds."""
    target = deps.targets[ref.target]
    observed = target.observe(ref)
    if target.plan_wait(observed, timeout=timeout)[0].empty:
        return
    with locked(observed.ref, deps):
        plan, pending = target.plan_wait(target.observe(observed.ref), timeout=timeout)
        try:
            yield from apply_generation(observed.ref, plan, pending, deps)
        except KeyboardInterrupt:
            raise interrupted(
                ref, deps, hint="the deployment continues. Run `lmi wait` to wait again"
            ) from None


def apply_generation(
    ref: DeploymentRef, plan: Plan, pending: Generation | None, deps: Dependencies
) -> Iterator[Event]:
    journal, took = deps.journal(ref), 0
    perform = deps.targets[ref.target].teardown_actions(ref)
    before, after = split(plan)
    try:
        for event in apply(before, perform, journal, deps.clock):
            if isinstance(event, Finished) and event.phase is Phase.WAIT:
                took = round(event.seconds)
            yield event
    except LmiError as error:
        explain(error, pending.serving.engine if pending else "")
        raise
    if pending is not None:
        since = deps.clock.now().isoformat(timespec="seconds")
        journal.commit(replace(pending, since=since, took=pending.took or took))
    yield from apply(after, perform, journal, deps.clock)
