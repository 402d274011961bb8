"""Deployments in an account: all that carry our tag, and those among them that nobody looks after any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lmi_deploy.domain.naming import name_mistake
from lmi_deploy.domain.observed import CloudObserved
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.expiry import is_expired
from lmi_deploy.domain.sagemaker.settings import TAG, TAG_BUCKET, TAG_EXPIRES, Resource, is_resource_name
from lmi_deploy.targets.status import unattended
from lmi_deploy.workflows.dependencies import Deps
from lmi_deploy.workflows.running_costs import hourly


@dataclass(frozen=True, slots=True, kw_only=True)
class Astray:
    """A deployment that may be taken away, and why."""

    ref: DeploymentRef
    why: str
    resources: int


def tagged(deps: Deps, region: str) -> tuple[DeploymentRef, ...]:
    """Every deployment of the account's region that has anything at all, whoever brought it up."""
    return tuple(_ref(name, found, deps, region) for name, found in _groups(deps, region))


def astray(deps: Deps, region: str) -> tuple[Astray, ...]:
    """Those that have expired, and those of which an interrupted run left a job, or parts with no record."""
    told = ((name, found, _why(name, found, deps, region)) for name, found in _groups(deps, region))
    return tuple(
        Astray(ref=_ref(name, found, deps, region), why=why, resources=len(found))
        for name, found, why in told
        if why
    )


def _groups(deps: Deps, region: str) -> Iterator[tuple[str, list[Resource]]]:
    if "sagemaker" not in deps.targets:
        return
    found: defaultdict[str, list[Resource]] = defaultdict(list)
    jobs: defaultdict[str, list[Resource]] = defaultdict(list)
    for resource in deps.cloud(region).tagged.all():
        name = resource.tag(TAG)
        if not name_mistake(name) and is_resource_name(resource.kind, resource.name, name):
            kind = jobs if resource.kind == "processing-job" else found
            kind[name].append(resource)
    # A job that has ended stays in SageMaker's lists for ever, and is nothing to take away.
    alone = {
        name: running
        for name in jobs.keys() - found.keys()
        if (running := _running(jobs[name], deps, region))
    }
    yield from sorted({**found, **alone}.items())


def _running(jobs: Sequence[Resource], deps: Deps, region: str) -> list[Resource]:
    cloud = deps.cloud(region).jobs
    seen = ((resource, cloud.job(resource.name)) for resource in jobs)
    return [resource for resource, job in seen if job and job.is_running]


def _why(name: str, found: Sequence[Resource], deps: Deps, region: str) -> str:
    endpoint = next((resource for resource in found if resource.kind == "endpoint"), None)
    if endpoint is not None and not is_expired(endpoint.tag(TAG_EXPIRES), deps.clock.now()):
        return ""
    seen = deps.targets["sagemaker"].observe(_ref(name, found, deps, region))
    why = unattended(seen)
    if not why or not isinstance(seen, CloudObserved) or not seen.jobs:
        return why
    if seen.bucket and deps.lock(seen.ref).holder(name):
        return ""  # its `up` goes on, and watches them
    cost = hourly(seen, deps)
    return f"{why}, which costs {cost}" if cost else why


def _ref(name: str, found: Sequence[Resource], deps: Deps, region: str) -> DeploymentRef:
    bucket = next(filter(None, (resource.tag(TAG_BUCKET) for resource in found)), "")
    caller = deps.cloud(region).caller
    return DeploymentRef(
        name=name, target="sagemaker", region=caller.region, bucket=bucket, account=caller.account
    )
