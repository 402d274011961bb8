"""How long a deployment may live: changed by the user, independent of its recipe."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

from lmi_deploy.domain.observed import CloudObserved
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.settings import TAG_EXPIRES, ObservedEndpoint
from lmi_deploy.errors import NotFound, Refused, UsageRefused
from lmi_deploy.recipe.model.scalar_types import InvalidValue
from lmi_deploy.recipe.model.ttl import TTL
from lmi_deploy.targets.sagemaker.lost_tag import require_ownership_tag
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked


def extend(ref: DeploymentRef, duration: str, deps: Dependencies) -> tuple[DeploymentRef, str]:
    """Its location, and the new expiry time, ISO 8601.

    Under the lock: `lmi gc`, which deletes what has expired, reads the tag under it.
    """
    seconds = _seconds(duration)
    observed = _observed(ref, deps)
    with _locked(observed, deps):
        found = _endpoint(_observed(observed.ref, deps))
        expires = (deps.clock.now() + timedelta(seconds=seconds)).isoformat(timespec="seconds")
        deps.cloud(observed.ref.region).hosting.tag(found.arn, ((TAG_EXPIRES, expires),))
    return observed.ref, expires


def _observed(ref: DeploymentRef, deps: Dependencies) -> CloudObserved:
    observed = deps.targets[ref.target].observe(ref)
    if not isinstance(observed, CloudObserved):
        raise UsageRefused(f"{ref.name}: target local has no expiry", hint="`lmi down` ends it")
    _endpoint(observed)
    return observed


def _endpoint(observed: CloudObserved) -> ObservedEndpoint:
    require_ownership_tag(observed)
    if observed.not_owned_reason:
        raise Refused(observed.not_owned_reason, hint="nothing of it was touched")
    if observed.endpoint is None or observed.endpoint.status == "Deleting":
        missing = "its endpoint is being deleted" if observed.endpoint else "it has no endpoint"
        raise NotFound(f"{observed.ref.name}: {missing}", hint="`lmi status` says what is there")
    return observed.endpoint


def _locked(observed: CloudObserved, deps: Dependencies) -> AbstractContextManager[None]:
    """The bucket stores the lock; without a bucket there is nothing to lock in."""
    return locked(observed.ref, deps) if observed.bucket else nullcontext()


def _seconds(duration: str) -> int:
    try:
        return int(TTL.read(duration))
    except InvalidValue as wrong:
        raise UsageRefused(f"{duration}: {wrong.what}", hint=wrong.hint) from None
