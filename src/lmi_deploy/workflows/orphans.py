"""Deployments in an account: all with our tag, and which of them are orphans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lmi_deploy.domain.naming import name_error
from lmi_deploy.domain.observed import CloudObserved
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.expiry import is_expired
from lmi_deploy.domain.sagemaker.settings import TAG, TAG_BUCKET, TAG_EXPIRES, Resource, is_resource_name
from lmi_deploy.targets.status import unattended
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.running_costs import hourly


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedDeployment:
    """A deployment that may be taken away, and why."""

    ref: DeploymentRef
    why: str
    resources: int


def tagged(deps: Dependencies, region: str) -> tuple[DeploymentRef, ...]:
    """Every deployment in the account's region that has any resources, from any machine."""
    return tuple(_ref(name, found, deps, region) for name, found in _groups(deps, region))


def orphaned_deployments(deps: Dependencies, region: str) -> tuple[OrphanedDeployment, ...]:
    """Those that have expired, and those of which an interrupted run left a job, or parts with no record."""
    lines = ((name, found, _why(name, found, deps, region)) for name, found in _groups(deps, region))
    return tuple(
        OrphanedDeployment(ref=_ref(name, found, deps, region), why=why, resources=len(found))
        for name, found, why in lines
        if why
    )


def _groups(deps: Dependencies, region: str) -> Iterator[tuple[str, list[Resource]]]:
    if "sagemaker" not in deps.targets:
        return
    found: defaultdict[str, list[Resource]] = defaultdict(list)
    jobs: defaultdict[str, list[Resource]] = defaultdict(list)
    for resource in deps.cloud(region).tagged.all():
        name = resource.tag(TAG)
        if not name_error(name) and is_resource_name(resource.kind, resource.name, name):
            kind = jobs if resource.kind == "processing-job" else found
            kind[name].append(resource)
    # SageMaker lists a finished job for ever; there is nothing to delete.
    alone = {
        name: running
        for name in jobs.keys() - found.keys()
        if (running := _running(jobs[name], deps, region))
    }
    yield from sorted({**found, **alone}.items())


def _running(jobs: Sequence[Resource], deps: Dependencies, region: str) -> list[Resource]:
    cloud = deps.cloud(region).jobs
    observed = ((resource, cloud.job(resource.name)) for resource in jobs)
    return [resource for resource, job in observed if job and job.is_running]


def _why(name: str, found: Sequence[Resource], deps: Dependencies, region: str) -> str:
    endpoint = next((resource for resource in found if resource.kind == "endpoint"), None)
    if endpoint is not None and not is_expired(endpoint.tag(TAG_EXPIRES), deps.clock.now()):
        return ""
    observed = deps.targets["sagemaker"].observe(_ref(name, found, deps, region))
    why = unattended(observed)
    if not why or not isinstance(observed, CloudObserved) or not observed.jobs:
        return why
    if observed.bucket and deps.lock(observed.ref).holder(name):
        return ""  # its `up` still runs, and watches them
    cost = hourly(observed, deps)
    return f"{why}, which costs {cost}" if cost else why


def _ref(name: str, found: Sequence[Resource], deps: Dependencies, region: str) -> DeploymentRef:
    bucket = next(filter(None, (resource.tag(TAG_BUCKET) for resource in found)), "")
    caller = deps.cloud(region).caller
    return DeploymentRef(
        name=name, target="sagemaker", region=caller.region, bucket=bucket, account=caller.account
    )
