"""Delete a deployment, then observe it again: the deletion is verified, not assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.local_actions import RemoveDeployment
from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.job_actions import StopTransferJob
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.errors import DeployFailed, StalePlan
from lmi_deploy.planning.stale_plan_check import require_agreed
from lmi_deploy.ports.journal import Journal
from lmi_deploy.workflows.apply import apply, apply_on
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.interruption import interrupted
from lmi_deploy.workflows.remaining_storage import RemainingStorage, remaining_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class TeardownScope:
    """How much is deleted: `purge` includes weights that no other deployment uses, `logs` the containers' logs.

    `unattended`: only what has expired or was left by an interrupted run; `in_use`: why it must stay, empty if it need
    not. Both are checked again under the lock. `jobs_only`: only jobs that an interrupted run left.
    """

    purge: bool = False
    logs: bool = False
    unattended: bool = False
    jobs_only: bool = False
    in_use: Callable[[Observed], str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeardownPlan:
    ref: DeploymentRef
    plan: Plan
    extent: TeardownScope
    observed: Observed
    notices: tuple[str, ...] = ()
    recorded: bool = True
    """False: the bucket is deleted, and lock and record with it."""
    created: str = ""
    """When the endpoint was created; distinguishes it from a later one of its name."""


def prepare(ref: DeploymentRef, deps: Dependencies, scope: TeardownScope | None = None) -> TeardownPlan:
    """What would be deleted; an empty plan if there is nothing. Refused if the existing resources are not ours."""
    scope, target = scope or TeardownScope(), deps.targets[ref.target]
    observed = target.observe_all(ref)
    if scope.jobs_only:
        jobs = _of_jobs(target.plan_teardown(observed))
        return TeardownPlan(ref=observed.ref, plan=jobs, extent=scope, observed=observed)
    if scope.unattended and not target.unattended(observed):
        # In use after all: it was extended, or deployed again.
        stays = f"until {expires}" if (expires := target.details(observed).expires) else "without an expiry"
        return _kept(observed, scope, f"it now runs {stays}")
    if scope.in_use and (why := scope.in_use(observed)):
        return _kept(observed, scope, why)
    target.require_removable(observed)
    purge, notices = _weights(observed, deps) if scope.purge else (None, ())
    plan = target.plan_teardown(observed, logs=scope.logs, purge=purge)
    return TeardownPlan(
        ref=observed.ref,
        plan=plan,
        extent=scope,
        observed=observed,
        notices=(*notices, *target.kept(observed, plan, region=ref.region)),
        recorded=observed.lockable,
        created=observed.created,
    )


def _of_jobs(plan: Plan) -> Plan:
    return replace(plan, actions=tuple(one for one in plan.actions if isinstance(one, StopTransferJob)))


def _kept(observed: Observed, scope: TeardownScope, why: str) -> TeardownPlan:
    name = observed.ref.name
    return TeardownPlan(
        ref=observed.ref,
        plan=Plan(deployment=name, actions=()),
        extent=scope,
        observed=observed,
        notices=(f"{name} stays: {why}",),
    )


def execute(teardown_plan: TeardownPlan, deps: Dependencies) -> Iterator[Event]:
    """Under the lock, from the state observed under it; DeployFailed names what is left."""
    if teardown_plan.plan.empty:
        if teardown_plan.recorded:
            deps.lock(teardown_plan.ref).sweep(teardown_plan.ref.name)
        return
    ref = teardown_plan.ref
    try:
        with _locked(teardown_plan, deps):
            found = prepare(ref, deps, teardown_plan.extent)
            if found.plan.empty:
                yield from (Notice(text=notice) for notice in found.notices)
                return
            _require_same(teardown_plan, found)
            yield from _remove(found, deps)
    except KeyboardInterrupt:
        hint = "the steps so far are recorded: `lmi status` shows them, `lmi down` continues"
        raise interrupted(ref, deps, hint=hint) from None


def stored_after(teardown_plan: TeardownPlan, deps: Dependencies) -> tuple[RemainingStorage, ...]:
    """What stays in billed storage once the plan is carried out, each with the command that deletes it."""
    observed = teardown_plan.observed
    weights = deps.targets[observed.ref.target].weights_named(observed)
    return remaining_storage(observed, teardown_plan.plan, weights, deps)


def _require_same(shown: TeardownPlan, found: TeardownPlan) -> None:
    """Refused if more would be deleted than was shown, or another endpoint of that name."""
    require_agreed(shown.plan, found.plan)
    if found.created not in ("", shown.created):
        raise StalePlan(
            f"{found.ref.name}: the plan is stale: the endpoint was replaced by one created at {found.created}",
            hint="nothing was changed. Run the command again and check the new plan",
        )


def _locked(teardown_plan: TeardownPlan, deps: Dependencies) -> AbstractContextManager[None]:
    """The deployment's lock, if there is a place for one."""
    return locked(teardown_plan.ref, deps) if teardown_plan.recorded else nullcontext()


def _remove(teardown_plan: TeardownPlan, deps: Dependencies) -> Iterator[Event]:
    ref, plan = teardown_plan.ref, teardown_plan.plan
    target = deps.targets[ref.target]
    journal: Journal = deps.journal(ref) if teardown_plan.recorded else NoJournal()
    perform = target.teardown_actions(ref)
    # The server stops before its resources are deleted.
    last = max((n for n, a in enumerate(plan.actions) if a.phase is Phase.STOP), default=-1) + 1
    before = plan.actions[:last]
    small = replace(plan, actions=tuple(action for action in before if action.can_wait))
    failed = yield from apply_on(small, perform, journal, deps.clock, needs_all=_is_last)
    urgent = replace(plan, actions=tuple(action for action in before if not action.can_wait))
    yield from apply(urgent, perform, journal, deps.clock)
    rest = tuple(action for action in plan.actions[last:] if not (failed and _is_last(action)))
    failed += yield from apply_on(
        replace(plan, actions=rest), perform, journal, deps.clock, needs_all=_is_last
    )
    if len(failed) == 1:
        raise failed[0]
    left = target.plan_teardown(target.observe_all(ref))
    left = _of_jobs(left) if teardown_plan.extent.jobs_only else left
    if failed or not left.empty:
        names = [action.title for action in left.actions]
        raise DeployFailed(
            f"{ref.name}: not deleted: {'; '.join(names) or 'see above'}",
            hint="run `lmi down` again: it continues with the rest",
            details=[error.message for error in failed],
        )


def _is_last(action: Action) -> bool:
    """The record lists what is left; it is deleted when nothing is."""
    return isinstance(action, RemoveDeployment)


def _weights(observed: Observed, deps: Dependencies) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The weights that no other deployment of the bucket uses; and for the others, the deployments that use them."""
    named = deps.targets[observed.ref.target].weights_named(observed)
    if not named:
        return (), ()
    store = deps.weights(BucketRequest(bucket=observed.ref.bucket, region=observed.ref.region), None)
    used, complete = store.references(but=observed.ref.name), {manifest.name for manifest in store.all()}
    lines = tuple(
        f"{name} stays: {', '.join(used[name])} {'uses' if len(used[name]) == 1 else 'use'} it"
        for name in named
        if name in used
    )
    # Without a manifest they may still be stored: an interrupted removal deletes it first.
    return tuple(
        name for name in named if name not in used and (name in complete or store.exists(name))
    ), lines
