"""The lifetime of an endpoint: the recipe's `ttl` is compared with the tag that holds the last value it was set from;
the schedule that deletes it follows the tag `lmi:expires-at`.

`lmi extend` moves `lmi:expires-at` and does not change `lmi:ttl`, so that the next `up` does not undo it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Change, Plan
from lmi_deploy.domain.sagemaker.actions import RemoveSchedule, ScheduleDeletion, SetExpiry
from lmi_deploy.domain.sagemaker.expiry import ObservedSchedule, duration_text, parse_moment
from lmi_deploy.domain.sagemaker.resource_settings import SERVING_KINDS, TAG_TTL

_TOLERANCE: Final = 300
"""Seconds between the tag and the schedule, which are set one after the other."""


def set_expiry(
    spec: Spec, observed: CloudObserved
) -> Iterator[SetExpiry | ScheduleDeletion | RemoveSchedule]:
    """Of an endpoint that stays: if the recipe's ttl has changed, or the endpoint has expired: a user who runs `up`
    wants to keep it. The schedule moves first: it must not delete what has just been extended.
    """
    changed = observed.expired or _live(observed) != _desired_expiry(spec)
    if not _is_scheduled(spec):
        yield from remove_schedule(spec, observed)
    elif changed or not _is_in_step(observed.schedule, spec.cloud.scheduler_role, observed.expires):
        ttl = spec.cloud.ttl if changed else 0
        yield ScheduleDeletion(endpoint=spec.name, role=spec.cloud.scheduler_role, ttl=ttl)
    if changed:
        yield SetExpiry(endpoint=spec.name, ttl=spec.cloud.ttl)


def schedule_new(spec: Spec, observed: CloudObserved) -> Iterator[ScheduleDeletion | RemoveSchedule]:
    """Before an endpoint is created: a schedule that an earlier one left must not delete this one."""
    if _is_scheduled(spec):
        yield ScheduleDeletion(endpoint=spec.name, role=spec.cloud.scheduler_role, ttl=spec.cloud.ttl)
    else:
        yield from remove_schedule(spec, observed)


def remove_schedule(spec: Spec, observed: CloudObserved) -> Iterator[RemoveSchedule]:
    if observed.schedule is not None:
        yield RemoveSchedule(endpoint=spec.name)


def _is_scheduled(spec: Spec) -> bool:
    return bool(spec.cloud.ttl and spec.cloud.scheduler_role)


def _is_in_step(schedule: ObservedSchedule | None, role: str, expires: str) -> bool:
    if schedule is None or not schedule.enabled or schedule.role != role:
        return False
    at, expected = parse_moment(schedule.at), parse_moment(expires)
    return (
        at is not None and expected is not None and abs(at.timestamp() - expected.timestamp()) <= _TOLERANCE
    )


def expiry_changes(spec: Spec, observed: CloudObserved) -> Iterator[Change]:
    """Of an endpoint that stays."""
    before, after = _live(observed), _desired_expiry(spec)
    if before != after:
        yield Change(field="ttl", before=_words(before), after=_words(after))


def expiry_notice(observed: CloudObserved, plan: Plan) -> str:
    """What the plan does with an expired endpoint; empty if it has not expired, or stays expired."""
    ttl = next((action.ttl for action in plan.actions if isinstance(action, SetExpiry)), None)
    if not observed.expired or ttl is None:
        return ""
    then = f"expires {duration_text(ttl)} from now" if ttl else "no longer expires: the recipe has no ttl"
    return (
        f"{observed.ref.name} expired at {observed.expires}, and `lmi gc` may delete it; after this `up` it "
        f"{then}"
    )


def unscheduled_notice(spec: Spec) -> str:
    """Who deletes an endpoint that expires, if AWS does not."""
    if not spec.cloud.ttl or spec.cloud.scheduler_role:
        return ""
    return (
        f"nothing deletes {spec.name} by itself when its ttl of {duration_text(spec.cloud.ttl)} is over: `lmi gc` "
        "does, when you run it. To let AWS delete it, set endpoint.scheduler_role (`lmi iam` prints its policy)"
    )


def _live(observed: CloudObserved) -> str:
    return next((r.tag(TAG_TTL) for r in observed.resources if r.kind in SERVING_KINDS), "")


def _desired_expiry(spec: Spec) -> str:
    return str(spec.cloud.ttl or "")


def _words(seconds: str) -> str:
    return duration_text(int(seconds)) if seconds.isdecimal() else seconds
