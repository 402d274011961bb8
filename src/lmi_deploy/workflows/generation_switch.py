"""Make another generation the current one: wait, probe, settle; and return to the previous one if the probe fails."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.events import Event, Finished, Notice, Started
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.record import AN_UP, DeploymentRef, Generation, ServingChange
from lmi_deploy.errors import DeployFailed, LmiError, LockLost
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.error_diagnosis import explain


def split(plan: Plan) -> tuple[Plan, Plan]:
    """The actions that start the new generation, and those that remove the old one."""
    cut = len(plan.actions)
    while cut and plan.actions[cut - 1].phase.removes:
        cut -= 1
    return replace(plan, actions=plan.actions[:cut]), replace(plan, actions=plan.actions[cut:])


@dataclass(slots=True)
class PlanProgress:
    """What the events of a plan say."""

    phase: Phase | None = None
    """Of the action that is carried out."""
    begun: set[Phase] = field(default_factory=set)
    took: int = 0
    """Seconds that the wait for service took."""

    def followed(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Started):
                self.phase = event.phase
                self.begun.add(event.phase)
            if isinstance(event, Finished) and event.phase is Phase.WAIT:
                self.took = round(event.seconds)
            yield event


def apply_generation(
    ref: DeploymentRef,
    plan: Plan,
    pending: Generation | None,
    deps: Dependencies,
    *,
    change: ServingChange = AN_UP,
    returns: bool = False,
) -> Iterator[Event]:
    """`returns`: to the previous generation, if the probe fails."""
    journal, progress = deps.journal(ref), PlanProgress()
    perform = deps.targets[ref.target].teardown_actions(ref)
    before, after = split(plan)
    try:
        yield from progress.followed(apply(before, perform, journal, deps.clock))
    except LmiError as error:
        explain(error, pending.serving.engine if pending else "")
        if returns and progress.phase is Phase.PROBE:
            yield from return_to_previous(ref, pending, error, deps)
        raise
    if pending is not None:
        since = deps.clock.now().isoformat(timespec="seconds")
        settled = replace(pending, since=since, took=pending.took or progress.took)
        journal.commit(settled, replace(change, by=deps.who(ref), at=since))
    yield from apply(after, perform, journal, deps.clock)


def return_to_previous(
    ref: DeploymentRef, failed: Generation | None, error: LmiError, deps: Dependencies
) -> Generator[Event, None, bool]:
    """After `error`, with which the probe of the generation `failed` ended: back to the current one of the record, if
    requests already go to the failed one. Nothing if the model did not answer badly, but could not be asked.

    Whether the previous one is in service again. The hint of `error`, which the caller raises, says what serves.
    """
    target, name = deps.targets[ref.target], ref.name
    # The tag search may not know the previous version's resources yet.
    observed = target.confirm(target.observe(ref))
    previous = observed.record.current if observed.record else None
    served = failed is not None and observed.serving == failed.server
    if not isinstance(error, DeployFailed) or failed is None or previous is None or not served:
        return False
    if previous.server == failed.server:
        return False
    assert observed.record is not None
    # The plan compares with the generation that serves: its instance type and its scaling.
    record = replace(observed.record, generations=(*observed.record.generations, failed))
    yield Notice(text=f"{name}: the new version failed its probe; going back to the previous one")
    try:
        plan, previous = target.plan_rollback(replace(observed, record=record), previous.server)
        deps.journal(ref).set_pending(previous)
        yield from apply_generation(ref, plan, previous, deps, change=ServingChange(kind="rollback"))
    except LockLost:
        raise
    except LmiError as second:
        _add_hint(
            error, f"the way back failed, too: {second.message}; `{ref.command('rollback')}` tries again"
        )
        return False
    _add_hint(error, f"the previous version of {name} serves again; --no-rollback leaves the new one")
    return True


def _add_hint(error: LmiError, text: str) -> None:
    error.hint = "; ".join(filter(None, (error.hint, text)))
