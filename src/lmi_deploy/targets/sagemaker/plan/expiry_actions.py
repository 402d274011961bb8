"""The lifetime of an endpoint: the recipe's `ttl` is compared with the tag that holds the last value it was set from.

`lmi extend` moves `lmi:expires-at` and does not change `lmi:ttl`, so that the next `up` does not undo it.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Change, Plan
from lmi_deploy.domain.sagemaker.actions import SetExpiry
from lmi_deploy.domain.sagemaker.expiry import duration_text
from lmi_deploy.domain.sagemaker.resource_settings import TAG_TTL


def set_expiry(spec: Spec, observed: CloudObserved) -> Iterator[SetExpiry]:
    """If the recipe's ttl has changed, or the endpoint has expired: a user who runs `up` wants to keep it."""
    if observed.expired or _live(observed) != _desired_expiry(spec):
        yield SetExpiry(endpoint=spec.name, ttl=spec.cloud.ttl)


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


def _live(observed: CloudObserved) -> str:
    return next((r.tag(TAG_TTL) for r in observed.resources if r.kind == "endpoint"), "")


def _desired_expiry(spec: Spec) -> str:
    return str(spec.cloud.ttl or "")


def _words(seconds: str) -> str:
    return duration_text(int(seconds)) if seconds.isdecimal() else seconds
