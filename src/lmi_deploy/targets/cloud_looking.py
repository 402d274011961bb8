"""A deployment on SageMaker as it is: found by its tags, judged ours or not, with what its bucket holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from lmi_deploy.core.buckets import default_bucket
from lmi_deploy.core.delivery import WRITTEN_LAST, artifacts_prefix
from lmi_deploy.core.hosting import (
    SETTLING,
    TAG,
    TAG_BUCKET,
    Resource,
    ResourceKind,
    SeenEndpoint,
    SeenEndpointConfig,
)
from lmi_deploy.core.observed import CloudObserved
from lmi_deploy.core.record import DeploymentRef, Record
from lmi_deploy.ports.cloud import Cloud, Depot
from lmi_deploy.targets.cloud_job import RUNNING

DepotOf = Callable[[Cloud, str], Depot | None]


def observe(ref: DeploymentRef, cloud: Cloud, depot_of: DepotOf) -> CloudObserved:
    """As few requests as tell it: a deployment in step is told by four."""
    endpoint = cloud.hosting.endpoint(ref.name)
    found = tuple(r for r in cloud.tagged.of(ref.name) if r.kind != "processing-job")
    resources, stranger = _ours(ref.name, endpoint, found, cloud)
    bucket = ref.bucket or _bucket(resources, cloud)
    depot = depot_of(cloud, bucket)
    artifacts, torn = _artifacts(ref.name, depot)
    return CloudObserved(
        ref=replace(ref, region=cloud.caller.region, bucket=bucket),
        record=depot.records.read(ref.name) if depot else None,
        endpoint=endpoint,
        config=_endpoint_config(endpoint, resources, stranger, cloud),
        resources=resources,
        stranger=stranger,
        artifacts=artifacts,
        torn=torn,
        bucket=depot is not None,
    )


def survey(ref: DeploymentRef, cloud: Cloud, depot_of: DepotOf) -> CloudObserved:
    """Everything that a teardown must know. The tag search lags behind: each thing is asked for where it lies."""
    seen = observe(ref, cloud, depot_of)
    jobs = tuple(
        r
        for r in cloud.tagged.of(ref.name)
        if r.kind == "processing-job" and (job := cloud.jobs.job(r.name)) and job.status in RUNNING
    )
    return replace(
        seen,
        resources=(*_confirmed(seen, cloud), *jobs),
        scaling=None if seen.stranger else cloud.scalers.scaling(ref.name),
        log_group="" if seen.stranger else cloud.logs.group(ref.name),
    )


def _ours(
    name: str, endpoint: SeenEndpoint | None, found: tuple[Resource, ...], cloud: Cloud
) -> tuple[tuple[Resource, ...], str]:
    """What carries our tag, and why the endpoint of this name is not ours where it is not."""
    if endpoint is None:
        # What the tag search still remembers of an endpoint that is gone.
        return tuple(resource for resource in found if resource.kind != "endpoint"), ""
    if any(resource.kind == "endpoint" for resource in found):
        return found, ""
    tags = cloud.hosting.tags(endpoint.arn)
    owner = dict(tags).get(TAG)
    if owner == name:
        return (*found, Resource(kind="endpoint", name=name, arn=endpoint.arn, tags=tags)), ""
    said = f"its tag {TAG} says {owner}" if owner else f"it carries no tag {TAG}"
    return found, f"{name}: an endpoint of that name is there, and is not ours: {said}"


def _bucket(resources: tuple[Resource, ...], cloud: Cloud) -> str:
    named = (resource.tag(TAG_BUCKET) for resource in sorted(resources, key=lambda r: r.kind != "endpoint"))
    return next(filter(None, named), default_bucket(cloud.caller.account, cloud.caller.region))


def _endpoint_config(
    endpoint: SeenEndpoint | None, resources: tuple[Resource, ...], stranger: str, cloud: Cloud
) -> SeenEndpointConfig | None:
    """Looked at only where the tags do not tell that it is there."""
    if endpoint is None or stranger or endpoint.status in SETTLING:
        return None
    listed = any(r.kind == "endpoint-config" and r.name == endpoint.config for r in resources)
    return None if listed else cloud.hosting.endpoint_config(endpoint.config)


def _artifacts(name: str, depot: Depot | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Stored artifacts by id: those that are whole, and those that are not."""
    if depot is None:
        return (), ()
    prefix, found = artifacts_prefix(name), defaultdict[str, set[str]](set)
    for stored in depot.store.list(prefix):
        stored_id, _, path = stored.key.removeprefix(prefix).partition("/")
        found[stored_id].add(path)
    whole = {one for one, paths in found.items() if WRITTEN_LAST in paths}
    return tuple(sorted(whole)), tuple(sorted(found.keys() - whole))


def _confirmed(seen: CloudObserved, cloud: Cloud) -> Iterator[Resource]:
    """What is there in truth: of what the tags tell, and of what the record says was begun."""
    yield from (r for r in seen.resources if r.kind == "endpoint")
    for kind, name in sorted({(r.kind, r.name) for r in seen.resources} | _recorded(seen.record)):
        if kind in ("endpoint-config", "model") and (resource := _there(kind, name, seen, cloud)):
            yield resource


def _there(kind: ResourceKind, name: str, seen: CloudObserved, cloud: Cloud) -> Resource | None:
    hosting = cloud.hosting
    found = hosting.endpoint_config(name) if kind == "endpoint-config" else hosting.model(name)
    if found is None:
        return None
    listed = next((r for r in seen.resources if (r.kind, r.name) == (kind, name)), None)
    if listed is not None:
        return listed
    resource = Resource(kind=kind, name=name, arn=found.arn, tags=hosting.tags(found.arn))
    return resource if resource.tag(TAG) == seen.ref.name else None


def _recorded(record: Record | None) -> set[tuple[ResourceKind, str]]:
    """Models and configs that the record names, however they ended."""
    if record is None:
        return set()
    known = (*record.generations, *((record.coming,) if record.coming else ()))
    names: list[tuple[ResourceKind, str]] = []
    for generation in known:
        names.append(("endpoint-config", generation.server))
        names.append(("model", str(generation.summary.get("sagemaker_model", ""))))
    for intent in record.intents:
        if intent.action == "CreateModel":
            names.append(("model", str(intent.names.get("model", ""))))
        if intent.action == "CreateEndpointConfig":
            names.append(("endpoint-config", str(intent.names.get("config", ""))))
    return {(kind, name) for kind, name in names if name}
