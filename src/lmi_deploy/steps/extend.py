"""How long a deployment may live, said anew."""

from __future__ import annotations

import re
from datetime import timedelta

from lmi_deploy.core.hosting import TAG_EXPIRES
from lmi_deploy.core.observed import CloudObserved
from lmi_deploy.core.record import DeploymentRef
from lmi_deploy.errors import NotFound, Refused, UsageRefused
from lmi_deploy.steps.deps import Deps

_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def extend(ref: DeploymentRef, duration: str, deps: Deps) -> str:
    """When it expires from now on, ISO 8601."""
    expires = (deps.clock.now() + _span(duration)).isoformat(timespec="seconds")
    seen = deps.targets[ref.target].observe(ref)
    if not isinstance(seen, CloudObserved):
        raise UsageRefused(f"{ref.name}: target local has no expiry", hint="`lmi down` ends it")
    if seen.stranger:
        raise Refused(seen.stranger, hint="nothing of it was touched")
    if seen.endpoint is None:
        raise NotFound(f"{ref.name}: it has no endpoint", hint="`lmi status` says what is there")
    deps.cloud(seen.ref.region).hosting.tag(seen.endpoint.arn, ((TAG_EXPIRES, expires),))
    return expires


def _span(duration: str) -> timedelta:
    found = _DURATION.fullmatch(duration)
    if found is None:
        raise UsageRefused(f"{duration}: not a duration", hint="a number and s, m, h or d: 90m, 8h, 7d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
