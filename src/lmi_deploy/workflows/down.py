"""Take a deployment away, then look again: nothing left is verified, not assumed."""

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
from lmi_deploy.domain.weights import BucketWish
from lmi_deploy.errors import DeployFailed, Refused
from lmi_deploy.planning.agreement import require_agreed
from lmi_deploy.ports.journal import Journal
from lmi_deploy.targets.plan import teardown, weights_named
from lmi_deploy.targets.sagemaker.lost_tag import require_no_lost_tag
from lmi_deploy.targets.status import elsewhere_words, unattended
from lmi_deploy.workflows.apply import apply, apply_on
from lmi_deploy.workflows.dependencies import Deps
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.running_costs import hourly, interrupted

_STOPPING = (DeleteEndpoint, StopServer)
"""What everything else serves: where it cannot be ended, nothing that it needs is taken from under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far it goes: `purge` takes weights that nobody else uses, `logs` what the containers printed.

    `unattended`: only what has expired or was left by an interrupted run, which is looked at again under the lock.
    """

    purge: bool = False
    logs: bool = False
    unattended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    ref: DeploymentRef
    plan: Plan
    extent: Extent
    notices: tuple[str, ...] = ()
    recorded: bool = True
    """False: the bucket is gone, and lock and record with it."""
    created: str = ""
    """When the endpoint was made, which tells it from a later one of its name."""


def prepare(ref: DeploymentRef, deps: Deps, extent: Extent | None = None) -> Ending:
    """What would be taken away; an empty plan when there is nothing. Refused where what is there is not ours."""
    extent = extent or Extent()
    seen = deps.targets[ref.target].survey(ref)
    if extent.unattended and not unattended(seen):
        return _kept(seen, extent)
    if isinstance(seen, CloudObserved) and seen.ownership:
        require_no_lost_tag(seen, cost=hourly(seen, deps))
    purge, notices = _weights(seen, deps) if extent.purge else ((), ())
    if isinstance(seen, CloudObserved):
        notices = (*notices, *_left_alone(seen))
    plan = teardown(seen, logs=extent.logs, purge=purge)
    if isinstance(seen, CloudObserved) and seen.stranger and plan.empty:
        raise Refused(seen.stranger, hint="nothing of it was touched")
    if isinstance(seen, CloudObserved) and plan.empty:
        notices = (*notices, *_elsewhere(ref, seen))
    recorded = not isinstance(seen, CloudObserved) or seen.bucket
    endpoint = seen.endpoint if isinstance(seen, CloudObserved) else None
    return Ending(
        ref=seen.ref,
        plan=plan,
        extent=extent,
        notices=notices,
        recorded=recorded,
        created=endpoint.created if endpoint else "",
    )


def _elsewhere(ref: DeploymentRef, seen: CloudObserved) -> Iterator[str]:
    """Nothing is here, but this machine knows one of that name elsewhere.

    Refused where that may be the one that was meant: in another account, or in another region than a default.
    """
    if not seen.elsewhere:
        return
    words = f"{ref.name}: nothing of it is in {seen.ref.place}{elsewhere_words(seen)}"
    if not ref.region or any(other.region == seen.ref.region for other in seen.elsewhere):
        raise Refused(
            words,
            hint="nothing was deleted. Use the credentials of that account (AWS_PROFILE), or name the region: "
            f"lmi down {ref.name} --region {seen.elsewhere[0].region}",
        )
    yield words


def _left_alone(seen: CloudObserved) -> Iterator[str]:
    if seen.stranger:
        yield f"{seen.stranger}; it is left alone"
    for resource in seen.misnamed:
        kind = resource.kind.replace("-", " ")
        yield (
            f"{kind} {resource.name}: it carries the tag {TAG} of {seen.ref.name}, but not a name that lmi gives; "
            "it is left alone"
        )


def carry_out(ending: Ending, deps: Deps) -> Iterator[Event]:
    """Under the lock, from what is seen under it; DeployFailed names what is left."""
    if ending.plan.empty:
        if ending.recorded:
            deps.lock(ending.ref).sweep(ending.ref.name)
        return
    ref = ending.ref
    try:
        with _held(ending, deps):
            found = prepare(ref, deps, ending.extent)
            if found.plan.empty:
                yield from (Notice(text=notice) for notice in found.notices)
                return
            _require_same(ending, found)
            yield from _take_away(found, deps)
    except KeyboardInterrupt:
        hint = "what was begun is recorded: `lmi status` shows it, `lmi down` goes on"
        raise interrupted(ref, deps, hint=hint) from None


def _require_same(shown: Ending, found: Ending) -> None:
    """Refused where more would be taken away than was shown, or another endpoint of that name."""
    require_agreed(shown.plan, found.plan)
    if found.created not in ("", shown.created):
        raise Refused(
            f"{found.ref.name}: the plan is stale: the endpoint is another one, created at {found.created}",
            hint="nothing was changed. Run the command again and look at the new plan",
        )


def _kept(seen: Observed, extent: Extent) -> Ending:
    """Somebody wants it after all: it was extended, or brought up again."""
    until = f" until {seen.expires}" if isinstance(seen, CloudObserved) and seen.expires else ""
    notice = f"{seen.ref.name} stays: it may live{until or ' on'}"
    plan = Plan(deployment=seen.ref.name, actions=())
    return Ending(ref=seen.ref, plan=plan, extent=extent, notices=(notice,))


def _held(ending: Ending, deps: Deps) -> AbstractContextManager[None]:
    """The deployment's lock, where there is a place for one."""
    return locked(ending.ref, deps) if ending.recorded else nullcontext()


def _take_away(ending: Ending, deps: Deps) -> Iterator[Event]:
    ref, plan = ending.ref, ending.plan
    target = deps.targets[ref.target]
    journal: Journal = deps.journal(ref) if ending.recorded else NoJournal()
    perform = target.ending(ref)
    last = max((n for n, a in enumerate(plan.actions) if isinstance(a, _STOPPING)), default=-1) + 1
    yield from apply(replace(plan, actions=plan.actions[:last]), perform, journal, deps.clock)
    rest = replace(plan, actions=plan.actions[last:])
    failed = yield from apply_on(rest, perform, journal, deps.clock, needs_all=_is_last)
    if len(failed) == 1:
        raise failed[0]
    left = teardown(target.survey(ref))
    if failed or not left.empty:
        names = [title(action) for action in left.actions]
        raise DeployFailed(
            f"{ref.name}: still to do after down: {'; '.join(names) or 'see above'}",
            hint="run `lmi down` again: it goes on with what is left",
            details=[error.message for error in failed],
        )


def _is_last(action: Action) -> bool:
    """The record tells what is left; it goes when nothing is."""
    return isinstance(action, RemoveDeployment)


def _weights(seen: Observed, deps: Deps) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that no other deployment of the bucket uses; and of the others, who does."""
    named = weights_named(seen)
    if not named or (isinstance(seen, CloudObserved) and not seen.bucket):
        return (), ()
    there = deps.weights(BucketWish(bucket=seen.ref.bucket, region=seen.ref.region), None)
    used, complete = there.used(but=seen.ref.name), {manifest.name for manifest in there.all()}
    told = tuple(f"{name} stays: {used[name]} uses it" for name in named if name in used)
    # Without a manifest they may still be stored: a removal that was interrupted took it first.
    return tuple(
        name for name in named if name not in used and (name in complete or there.exists(name))
    ), told
