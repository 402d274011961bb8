"""How long a deployment may live: moved by hand, whatever its recipe says."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

from lmi_deploy.domain.observed import CloudObserved
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.settings import TAG_EXPIRES, SeenEndpoint
from lmi_deploy.errors import NotFound, Refused, UsageRefused
from lmi_deploy.recipe.model.scalar_types import Wrong
from lmi_deploy.recipe.model.ttl import TTL
from lmi_deploy.targets.sagemaker.lost_tag import require_no_lost_tag
from lmi_deploy.workflows.dependencies import Deps
from lmi_deploy.workflows.deployment_lock import locked


def extend(ref: DeploymentRef, duration: str, deps: Deps) -> tuple[DeploymentRef, str]:
    """Where it is, and when it expires from now on, ISO 8601.

    Under the lock: `lmi gc`, which deletes what has expired, reads the tag under it.
    """
    seconds = _seconds(duration)
    seen = _observed(ref, deps)
    with _locked(seen, deps):
        found = _endpoint(_observed(seen.ref, deps))
        expires = (deps.clock.now() + timedelta(seconds=seconds)).isoformat(timespec="seconds")
        deps.cloud(seen.ref.region).hosting.tag(found.arn, ((TAG_EXPIRES, expires),))
    return seen.ref, expires


def _observed(ref: DeploymentRef, deps: Deps) -> CloudObserved:
    seen = deps.targets[ref.target].observe(ref)
    if not isinstance(seen, CloudObserved):
        raise UsageRefused(f"{ref.name}: target local has no expiry", hint="`lmi down` ends it")
    _endpoint(seen)
    return seen


def _endpoint(seen: CloudObserved) -> SeenEndpoint:
    require_no_lost_tag(seen)
    if seen.stranger:
        raise Refused(seen.stranger, hint="nothing of it was touched")
    if seen.endpoint is None or seen.endpoint.status == "Deleting":
        gone = "its endpoint is being deleted" if seen.endpoint else "it has no endpoint"
        raise NotFound(f"{seen.ref.name}: {gone}", hint="`lmi status` says what is there")
    return seen.endpoint


def _locked(seen: CloudObserved, deps: Deps) -> AbstractContextManager[None]:
    """The bucket holds the lock; without one there is nothing to lock in."""
    return locked(seen.ref, deps) if seen.bucket else nullcontext()


def _seconds(duration: str) -> int:
    try:
        return int(TTL.read(duration))
    except Wrong as wrong:
        raise UsageRefused(f"{duration}: {wrong.what}", hint=wrong.hint) from None
