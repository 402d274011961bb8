"""Delete a deployment, then observe it again: the deletion is verified, not assumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.observed import CloudObserved, Observed
from lmi_deploy.domain.plan import Action, Plan, RemoveDeployment, StopServer, title
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.actions import DeleteEndpoint
from lmi_deploy.domain.sagemaker.settings import TAG
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.errors import DeployFailed, Refused
from lmi_deploy.planning.agreement import require_agreed
from lmi_deploy.ports.journal import Journal
from lmi_deploy.targets.plan import teardown, weights_named
from lmi_deploy.targets.sagemaker.lost_tag import require_ownership_tag
from lmi_deploy.targets.status import other_location_text, unattended
from lmi_deploy.workflows.apply import apply, apply_on
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.running_costs import hourly, interrupted

_STOPPING = (DeleteEndpoint, StopServer)
"""The actions that must succeed before their dependencies are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeardownScope:
    """How much is deleted: `purge` includes weights that no other deployment uses, `logs` the containers' logs.

    `unattended`: only what has expired or was left by an interrupted run; this is checked again under the lock.
    """

    purge: bool = False
    logs: bool = False
    unattended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TeardownPlan:
    ref: DeploymentRef
    plan: Plan
    extent: TeardownScope
    notices: tuple[str, ...] = ()
    recorded: bool = True
    """False: the bucket is deleted, and lock and record with it."""
    created: str = ""
    """When the endpoint was created; distinguishes it from a later one of its name."""


def prepare(ref: DeploymentRef, deps: Dependencies, scope: TeardownScope | None = None) -> TeardownPlan:
    """What would be deleted; an empty plan if there is nothing. Refused if the existing resources are not ours."""
    scope = scope or TeardownScope()
    observed = deps.targets[ref.target].observe_all(ref)
    if scope.unattended and not unattended(observed):
        return _kept_notices(observed, scope)
    if isinstance(observed, CloudObserved) and observed.ownership:
        require_ownership_tag(observed, cost=hourly(observed, deps))
    purge, notices = _weights(observed, deps) if scope.purge else ((), ())
    if isinstance(observed, CloudObserved):
        notices = (*notices, *_kept_resources(observed))
    plan = teardown(observed, logs=scope.logs, purge=purge)
    if isinstance(observed, CloudObserved) and observed.not_owned_reason and plan.empty:
        raise Refused(observed.not_owned_reason, hint="nothing of it was touched")
    if isinstance(observed, CloudObserved) and plan.empty:
        notices = (*notices, *_other_location_notices(ref, observed))
    recorded = not isinstance(observed, CloudObserved) or observed.bucket
    endpoint = observed.endpoint if isinstance(observed, CloudObserved) else None
    return TeardownPlan(
        ref=observed.ref,
        plan=plan,
        extent=scope,
        notices=notices,
        recorded=recorded,
        created=endpoint.created if endpoint else "",
    )


def _other_location_notices(ref: DeploymentRef, observed: CloudObserved) -> Iterator[str]:
    """Nothing exists here, but this machine knows a deployment of that name in another place.

    Refused if the user may mean that one: in another account, or in another region than a default.
    """
    if not observed.other_locations:
        return
    words = f"{ref.name}: nothing of it is in {observed.ref.place}{other_location_text(observed)}"
    if not ref.region or any(other.region == observed.ref.region for other in observed.other_locations):
        raise Refused(
            words,
            hint="nothing was deleted. Use the credentials of that account (AWS_PROFILE), or name the region: "
            f"lmi down {ref.name} --region {observed.other_locations[0].region}",
        )
    yield words


def _kept_resources(observed: CloudObserved) -> Iterator[str]:
    if observed.not_owned_reason:
        yield f"{observed.not_owned_reason}; it is left alone"
    for resource in observed.misnamed:
        kind = resource.kind.replace("-", " ")
        yield (
            f"{kind} {resource.name}: it carries the tag {TAG} of {observed.ref.name}, but not a name that lmi gives; "
            "it is left alone"
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
        hint = "what was begun is recorded: `lmi status` shows it, `lmi down` goes on"
        raise interrupted(ref, deps, hint=hint) from None


def _require_same(shown: TeardownPlan, found: TeardownPlan) -> None:
    """Refused if more would be deleted than was shown, or another endpoint of that name."""
    require_agreed(shown.plan, found.plan)
    if found.created not in ("", shown.created):
        raise Refused(
            f"{found.ref.name}: the plan is stale: the endpoint is another one, created at {found.created}",
            hint="nothing was changed. Run the command again and look at the new plan",
        )


def _kept_notices(observed: Observed, scope: TeardownScope) -> TeardownPlan:
    """The deployment is in use after all: it was extended, or deployed again."""
    until = f" until {observed.expires}" if isinstance(observed, CloudObserved) and observed.expires else ""
    notice = f"{observed.ref.name} stays: it may live{until or ' on'}"
    plan = Plan(deployment=observed.ref.name, actions=())
    return TeardownPlan(ref=observed.ref, plan=plan, extent=scope, notices=(notice,))


def _locked(teardown_plan: TeardownPlan, deps: Dependencies) -> AbstractContextManager[None]:
    """The deployment's lock, if there is a place for one."""
    return locked(teardown_plan.ref, deps) if teardown_plan.recorded else nullcontext()


def _remove(teardown_plan: TeardownPlan, deps: Dependencies) -> Iterator[Event]:
    ref, plan = teardown_plan.ref, teardown_plan.plan
    target = deps.targets[ref.target]
    journal: Journal = deps.journal(ref) if teardown_plan.recorded else NoJournal()
    perform = target.teardown_actions(ref)
    last = max((n for n, a in enumerate(plan.actions) if isinstance(a, _STOPPING)), default=-1) + 1
    yield from apply(replace(plan, actions=plan.actions[:last]), perform, journal, deps.clock)
    rest = replace(plan, actions=plan.actions[last:])
    failed = yield from apply_on(rest, perform, journal, deps.clock, needs_all=_is_last)
    if len(failed) == 1:
        raise failed[0]
    left = teardown(target.observe_all(ref))
    if failed or not left.empty:
        names = [title(action) for action in left.actions]
        raise DeployFailed(
            f"{ref.name}: still to do after down: {'; '.join(names) or 'see above'}",
            hint="run `lmi down` again: it goes on with what is left",
            details=[error.message for error in failed],
        )


def _is_last(action: Action) -> bool:
    """The record lists what is left; it is deleted when nothing is."""
    return isinstance(action, RemoveDeployment)


def _weights(observed: Observed, deps: Dependencies) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The weights that no other deployment of the bucket uses; and for the others, the deployments that use them."""
    named = weights_named(observed)
    if not named or (isinstance(observed, CloudObserved) and not observed.bucket):
        return (), ()
    store = deps.weights(BucketRequest(bucket=observed.ref.bucket, region=observed.ref.region), None)
    used, complete = store.references(but=observed.ref.name), {manifest.name for manifest in store.all()}
    lines = tuple(f"{name} stays: {used[name]} uses it" for name in named if name in used)
    # Without a manifest they may still be stored: an interrupted removal deletes it first.
    return tuple(
        name for name in named if name not in used and (name in complete or store.exists(name))
    ), lines
