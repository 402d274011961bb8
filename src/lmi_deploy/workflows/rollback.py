"""Back to an earlier generation: planned, applied, probed."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import DeploymentRef, Record, ServingChange
from lmi_deploy.errors import Refused
from lmi_deploy.planning.stale_plan_check import require_agreed
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import journal_of, locked
from lmi_deploy.workflows.extend import expired_words
from lmi_deploy.workflows.generation_switch import apply_generation
from lmi_deploy.workflows.interruption import interrupted

_BACK = "the steps so far are recorded: `lmi status` shows them, `lmi rollback` continues"


def prepare_rollback(
    ref: DeploymentRef,
    deps: Dependencies,
    to: int | str = 0,
    *,
    max_hourly: float | None = None,
    if_serving: str = "",
    unattended: bool = False,
) -> tuple[DeploymentRef, Plan, Estimate, str]:
    """The plan of a rollback, its cost, and the name of the generation. NotFound if there is no earlier one, Refused
    if it may cost more than `max_hourly`, or if another generation than `if_serving` serves.

    `to`: its number, counted back from the current one, or its endpoint config; 0: the previous one. If the last
    rollback left that one, an `unattended` rollback to it is Refused: two people who roll back at the same time would
    put the bad version into service again.
    """
    target, observed = deps.targets[ref.target], _confirmed(ref, deps)
    if if_serving and observed.serving != if_serving:
        raise Refused(
            f"{ref.name}: {observed.serving or 'nothing'} serves, not {if_serving}",
            hint=f"`{ref.command('status')}` shows the generations; nothing was changed",
        )
    plan, generation = target.plan_rollback(observed, to)
    notices: Pairs = ()
    record = observed.record
    # One that was interrupted continues.
    if not to and record and not record.coming and record.left_by_rollback == generation.server:
        if unattended:
            back = ref.command("rollback")
            further = f"`{back} --to 2` goes one further back, " if len(record.generations) > 2 else ""
            raise Refused(
                f"{ref.name}: {_left(record)}", hint=f"{further}`{back} --to 1` goes to that one all the same"
            )
        notices = (("note", _left(record)),)
    target.require_startable(observed, generation)
    if expired := expired_words(target.details(observed), observed.ref):
        notices += (("expired", expired),)
    cost = target.require_affordable_generation(generation, observed.ref, max_hourly)
    return observed.ref, plan, Estimate(figures=(("cost", cost), *notices)), generation.server


def _left(record: Record) -> str:
    last = record.periods[-1]
    by = f" by {last.by.words}" if last.by.words else ""
    return f"the previous generation, {record.left_by_rollback}, is the one that the rollback of {last.since}{by} left"


def _confirmed(ref: DeploymentRef, deps: Dependencies) -> Observed:
    target = deps.targets[ref.target]
    observed: Observed = target.confirm(target.observe(ref))
    return observed


def roll_back(ref: DeploymentRef, deps: Dependencies, server: str, shown: Plan) -> Iterator[Event]:
    """Switch the endpoint to the generation of this name, probe it, and settle it as the current one.

    Refused if that differs from the plan that was `shown`.
    """
    with locked(ref, deps):
        observed = _confirmed(ref, deps)
        plan, previous = deps.targets[ref.target].plan_rollback(observed, server)
        require_agreed(shown, plan)
        journal_of(observed, deps).set_pending(previous)
        try:
            change = ServingChange(kind="rollback", before=observed.unrecorded_period)
            yield from apply_generation(ref, plan, previous, deps, change=change)
        except KeyboardInterrupt:
            raise interrupted(ref, deps, hint=_BACK) from None


def serving(ref: DeploymentRef, deps: Dependencies) -> str:
    """The generation that serves; empty without a record, or while another one is pending."""
    record = deps.targets[ref.target].read_record(ref)
    return record.current.server if record and record.current and not record.coming else ""


def accept(ref: DeploymentRef, deps: Dependencies, server: str) -> bool:
    """This generation is accepted, if it still serves: another job may have deployed since."""
    with locked(ref, deps):
        observed = deps.targets[ref.target].observe(ref)
        record = observed.record
        if record is None or record.coming or record.current is None or record.current.server != server:
            return False
        journal_of(observed, deps).accept(server)
        return True


def accepted(ref: DeploymentRef, deps: Dependencies) -> str:
    """The generation that was accepted last; empty if none ever was, or it cannot be gone back to any more."""
    record = deps.targets[ref.target].read_record(ref)
    kept = {generation.server for generation in record.generations} if record else set()
    return record.accepted if record and record.accepted in kept else ""
