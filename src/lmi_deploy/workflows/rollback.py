"""Back to an earlier generation: planned, applied, probed."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.planning.stale_plan_check import require_agreed
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.generation_switch import apply_generation
from lmi_deploy.workflows.interruption import interrupted

_BACK = "the steps so far are recorded: `lmi status` shows them, `lmi rollback` continues"


def prepare_rollback(
    ref: DeploymentRef, deps: Dependencies, to: int = 0, *, max_hourly: float | None = None
) -> tuple[DeploymentRef, Plan, Estimate, str]:
    """The plan of a rollback, its cost, and the name of the generation. NotFound if there is no earlier one, Refused
    if it may cost more than `max_hourly`.

    `to`: its number, counted back from the current one; 0: the previous one.
    """
    target, observed = deps.targets[ref.target], _confirmed(ref, deps)
    plan, generation = target.plan_rollback(observed, to)
    cost = target.require_affordable_generation(generation, observed.ref, max_hourly)
    return observed.ref, plan, Estimate(figures=(("cost", cost),)), generation.server


def _confirmed(ref: DeploymentRef, deps: Dependencies) -> Observed:
    target = deps.targets[ref.target]
    observed: Observed = target.confirm(target.observe(ref))
    return observed


def roll_back(ref: DeploymentRef, deps: Dependencies, server: str, shown: Plan) -> Iterator[Event]:
    """Switch the endpoint to the generation of this name, probe it, and settle it as the current one.

    Refused if that differs from the plan that was `shown`.
    """
    with locked(ref, deps):
        plan, previous = deps.targets[ref.target].plan_rollback(_confirmed(ref, deps), server)
        require_agreed(shown, plan)
        deps.journal(ref).set_pending(previous)
        try:
            yield from apply_generation(ref, plan, previous, deps)
        except KeyboardInterrupt:
            raise interrupted(ref, deps, hint=_BACK) from None
