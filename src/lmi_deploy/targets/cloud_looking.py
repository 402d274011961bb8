"""A deployment on SageMaker as it is: found by its tags, judged ours or not, with what its bucket holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from lmi_deploy.core.buckets import default_bucket
from lmi_deploy.core.delivery import WRITTEN_LAST, artifacts_prefix
from lmi_deploy.core.hosting import TAG, TAG_BUCKET, Resource, ResourceKind, SeenEndpoint
from lmi_deploy.core.observed import CloudObserved
from lmi_deploy.core.recipe import Pairs
from lmi_deploy.core.record import DeploymentRef
from lmi_deploy.ports.cloud import Cloud, Depot
from lmi_deploy.targets.cloud_job import RUNNING
from lmi_deploy.targets.cloud_ownership import ownership, parts_of, recorded_names, shared_model

DepotOf = Callable[[Cloud, str], Depot | None]


def observe(ref: DeploymentRef, cloud: Cloud, depot_of: DepotOf, *, own_tags: bool = False) -> CloudObserved:
    """As few requests as tell it: a deployment in step is told by six.

    With `own_tags` the endpoint's tags are read from SageMaker itself, and not from the tag search, which lags.
    """
    endpoint = cloud.hosting.endpoint(ref.name)
    found = tuple(r for r in cloud.tagged.of(ref.name) if r.kind != "processing-job")
    resources, stranger, tags = _ours(ref.name, endpoint, found, cloud, own_tags=own_tags)
    bucket = ref.bucket or _bucket(resources, cloud)
    depot = depot_of(cloud, bucket)
    record = depot.records.read(ref.name) if depot else None
    artifacts, torn = _artifacts(ref.name, depot)
    owned = ownership(endpoint, tags, resources, record) if stranger else ""
    config, missing = parts_of(endpoint if owned or not stranger else None, ref.name, record, cloud)
    return CloudObserved(
        ref=replace(ref, region=cloud.caller.region, bucket=bucket),
        record=record,
        endpoint=endpoint,
        config=config,
        resources=resources,
        stranger=stranger,
        ownership=owned,
        missing=tuple(sorted(missing)),
        artifacts=artifacts,
        torn=torn,
        bucket=depot is not None,
    )


def survey(ref: DeploymentRef, cloud: Cloud, depot_of: DepotOf) -> CloudObserved:
    """Everything that a teardown must know. The tag search lags behind: each thing is asked for where it lies."""
    seen = observe(ref, cloud, depot_of, own_tags=True)
    jobs = tuple(
        r
        for r in cloud.tagged.of(ref.name)
        if r.kind == "processing-job" and (job := cloud.jobs.job(r.name)) and job.status in RUNNING
    )
    confirmed = tuple(_confirmed(seen, cloud))
    return replace(
        seen,
        ownership=seen.ownership or _shared(seen, confirmed, cloud),
        resources=(*confirmed, *jobs),
        scaling=None if seen.stranger else cloud.scalers.scaling(ref.name),
        log_group="" if seen.stranger else cloud.logs.group(ref.name),
    )


def _ours(
    name: str, endpoint: SeenEndpoint | None, found: tuple[Resource, ...], cloud: Cloud, *, own_tags: bool
) -> tuple[tuple[Resource, ...], str, Pairs]:
    """What carries our tag; why the endpoint of this name is not ours where it is not, and its tags then."""
    if endpoint is None:
        # What the tag search still remembers of an endpoint that is gone.
        return tuple(resource for resource in found if resource.kind != "endpoint"), "", ()
    if not own_tags and any(resource.kind == "endpoint" for resource in found):
        return found, "", ()
    found = tuple(resource for resource in found if resource.kind != "endpoint")
    tags = cloud.hosting.tags(endpoint.arn)
    owner = dict(tags).get(TAG)
    if owner == name:
        return (*found, Resource(kind="endpoint", name=name, arn=endpoint.arn, tags=tags)), "", tags
    said = f"its tag {TAG} says {owner}" if owner else f"it carries no tag {TAG}"
    return found, f"{name}: an endpoint of that name is there, and is not ours: {said}", tags


def _shared(seen: CloudObserved, confirmed: tuple[Resource, ...], cloud: Cloud) -> str:
    return shared_model(seen.endpoint, confirmed, cloud) if seen.stranger and seen.endpoint else ""


def _bucket(resources: tuple[Resource, ...], cloud: Cloud) -> str:
    named = (resource.tag(TAG_BUCKET) for resource in sorted(resources, key=lambda r: r.kind != "endpoint"))
    return next(filter(None, named), default_bucket(cloud.caller.account, cloud.caller.region))


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
    for kind, name in sorted({(r.kind, r.name) for r in seen.resources} | recorded_names(seen.record)):
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
