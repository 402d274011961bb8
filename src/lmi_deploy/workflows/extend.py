"""How long a deployment may live: changed by the user, independent of its recipe."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta

from lmi_deploy.domain.recipe_key_types import Seconds
from lmi_deploy.domain.recipe_keys import TTL
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.status_details import StatusDetails
from lmi_deploy.errors import UsageRefused
from lmi_deploy.recipe.model.scalar_type import InvalidValue
from lmi_deploy.recipe.model.scalar_types import scalar_type
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked


def extend(ref: DeploymentRef, duration: str, deps: Dependencies) -> tuple[DeploymentRef, str]:
    """Its location, and the new expiry time, ISO 8601.

    Under the lock: `lmi gc`, which deletes what has expired, reads the tag under it.
    """
    seconds, target = read_duration(duration, TTL), deps.targets[ref.target]
    observed = target.observe(ref)
    target.require_extendable(observed)
    # The bucket stores the lock; without a bucket there is nothing to lock in.
    with locked(observed.ref, deps) if observed.lockable else nullcontext():
        expires = (deps.clock.now() + timedelta(seconds=seconds)).isoformat(timespec="seconds")
        target.set_expiry(target.observe(observed.ref), expires)
    return observed.ref, expires


def expired_words(details: StatusDetails, ref: DeploymentRef) -> str:
    """That it may be deleted at any time; empty if it has not expired."""
    if not details.expired:
        return ""
    return f"at {details.expires}: `lmi gc` may delete it at any time; `{ref.command('extend')} 8h` keeps it"


def read_duration(duration: str, limits: Seconds) -> int:
    try:
        return int(scalar_type(limits).read(duration))
    except InvalidValue as wrong:
        raise UsageRefused(f"{duration}: {wrong.what}", hint=wrong.hint) from None
