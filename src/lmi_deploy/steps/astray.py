"""Deployments in an account: all that carry our tag, and those among them that nobody looks after any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lmi_deploy.core.expiry import is_expired
from lmi_deploy.core.hosting import TAG, TAG_BUCKET, TAG_EXPIRES, Resource
from lmi_deploy.core.naming import name_mistake
from lmi_deploy.core.record import DeploymentRef
from lmi_deploy.decide.standing import unattended
from lmi_deploy.steps.deps import Deps


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
    """Those that have expired, and those of which an interrupted run left parts but no record and no endpoint."""
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
    for resource in deps.cloud(region).tagged.all():
        # A job that has ended stays in SageMaker's lists for ever, and is nothing to take away.
        if resource.kind != "processing-job" and not name_mistake(resource.tag(TAG)):
            found[resource.tag(TAG)].append(resource)
    yield from sorted(found.items())


def _why(name: str, found: Sequence[Resource], deps: Deps, region: str) -> str:
    endpoint = next((resource for resource in found if resource.kind == "endpoint"), None)
    if endpoint is not None and not is_expired(endpoint.tag(TAG_EXPIRES), deps.clock.now()):
        return ""
    return unattended(deps.targets["sagemaker"].observe(_ref(name, found, deps, region)))


def _ref(name: str, found: Sequence[Resource], deps: Deps, region: str) -> DeploymentRef:
    bucket = next(filter(None, (resource.tag(TAG_BUCKET) for resource in found)), "")
    caller = deps.cloud(region).caller
    return DeploymentRef(
        name=name, target="sagemaker", region=caller.region, bucket=bucket, account=caller.account
    )
