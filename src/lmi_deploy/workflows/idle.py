"""Deployments in AWS that had no request for a while, by CloudWatch's metrics of their endpoints or components."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.recipe_key_types import Seconds
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.expiry import parse_moment
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.list_deployments import list_with_status

IDLE: Final = Seconds(15 * 60, 63 * 86400)
"""Metrics are some minutes late, and CloudWatch keeps values of five minutes for 63 days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleDeployment:
    ref: DeploymentRef
    age: timedelta
    """Of its endpoint."""


def idle_deployments(region: str, window: timedelta, deps: Dependencies) -> tuple[IdleDeployment, ...]:
    """Those whose endpoint serves, is older than the window, was not changed in it, and had no request in it."""
    now = deps.clock.now()
    found: list[IdleDeployment] = []
    for target in deps.targets.values():
        listing = list_with_status(target, region)
        old = [
            one
            for one in listing.found
            # A shared endpoint has no requests of its own: the last of its models ends it.
            if one.status == "InService"
            and one.shared != "endpoint"
            and _since(one.created, one.modified) < now - window
        ]
        if not old:
            continue
        components = {name for one in old for name in one.components}
        endpoints = [one.ref.name for one in old if not one.components]
        metrics = deps.cloud(listing.region).metrics
        used = metrics.used(endpoints, components=components, since=now - window, until=now)
        found += [
            IdleDeployment(ref=one.ref, age=now - _since(one.created))
            for one in old
            if used.isdisjoint({one.ref.name, *one.components})
        ]
    return tuple(found)


def in_use(observed: Observed, window: timedelta, deps: Dependencies) -> str:
    """Why it is not idle after all, by its state now; empty if it is."""
    now, ref = deps.clock.now(), observed.ref
    details = deps.targets[ref.target].details(observed)
    endpoint, components = details.endpoint, details.components
    if endpoint is None or endpoint.status != "InService":
        return f"its endpoint is {endpoint.status if endpoint else 'deleted'}"
    if _since(endpoint.created, endpoint.modified) >= now - window:
        return "it was updated in the meantime"
    endpoints = [] if components else [ref.name]
    metrics = deps.cloud(ref.region).metrics
    used = metrics.used(endpoints, components=components, since=now - window, until=now)
    return "it had a request in the meantime" if used else ""


def _since(*moments: str) -> datetime:
    """The last of these times; an endpoint without one is as new as can be, and never idle."""
    known = [parsed for moment in moments if (parsed := parse_moment(moment))]
    return max(known) if known else datetime.max.replace(tzinfo=UTC)
