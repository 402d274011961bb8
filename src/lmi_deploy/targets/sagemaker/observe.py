"""A deployment on SageMaker as it is: found by its tags, judged ours or not, with what its bucket holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from lmi_deploy.domain.buckets import default_bucket
from lmi_deploy.domain.observed import CloudObserved
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.domain.sagemaker.expiry import is_expired
from lmi_deploy.domain.sagemaker.s3_layout import WRITTEN_LAST, artifacts_prefix
from lmi_deploy.domain.sagemaker.settings import (
    TAG,
    TAG_BUCKET,
    TAG_EXPIRES,
    TAG_SPEC,
    Resource,
    ResourceKind,
    SeenEndpoint,
    is_resource_name,
)
from lmi_deploy.domain.sagemaker.tags import told_tags
from lmi_deploy.domain.weights import flaws_in_words
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.cloud import Cloud, Depot
from lmi_deploy.targets.sagemaker.ownership import (
    ownership,
    parts_of,
    recorded_names,
    shared_model,
    unfinished_names,
)
from lmi_deploy.targets.sagemaker.propagation import resource_arn
from lmi_deploy.targets.sagemaker.transfer_job.running_jobs import running_jobs

DepotOf = Callable[[Cloud, str], Depot | None]


def observe(ref: DeploymentRef, cloud: Cloud, depot_of: DepotOf, *, own_tags: bool = False) -> CloudObserved:
    """As few requests as tell it: a deployment in step is told by six.

    With `own_tags` the endpoint's tags are read from SageMaker itself, and not from the tag search, which lags.
    """
    endpoint = cloud.hosting.endpoint(ref.name)
    searched = cloud.tagged.of(ref.name)
    tagged = tuple(r for r in searched if is_resource_name(r.kind, r.name, ref.name))
    found = tuple(r for r in tagged if r.kind != "processing-job")
    resources, stranger, tags = _ours(ref.name, endpoint, found, cloud, own_tags=own_tags)
    bucket = ref.bucket or _bucket(resources, cloud)
    depot = depot_of(cloud, bucket)
    record = depot.records.read(ref.name) if depot else None
    if not own_tags and _is_stale(resources, record):
        resources, stranger, tags = _ours(ref.name, endpoint, found, cloud, own_tags=True)
    stored = _stored(ref.name, depot)
    whole = {one for one, files in stored.items() if WRITTEN_LAST in files}
    owned = ownership(endpoint, tags, resources, record) if stranger else ""
    config, missing = parts_of(endpoint if owned or not stranger else None, ref.name, record, cloud)
    return CloudObserved(
        ref=replace(ref, region=cloud.caller.region, bucket=bucket, account=cloud.caller.account),
        record=record,
        endpoint=endpoint,
        config=config,
        resources=resources,
        misnamed=tuple(r for r in searched if r not in tagged and r.kind != "processing-job"),
        stranger=stranger,
        ownership=owned,
        missing=tuple(sorted(missing)),
        jobs=running_jobs(ref.name, tuple(r for r in tagged if r.kind == "processing-job"), record, cloud),
        artifacts=tuple(sorted(whole)),
        torn=tuple(sorted(stored.keys() - whole)),
        stored=stored,
        bucket=depot is not None,
    )


def with_weights(seen: CloudObserved, cloud: Cloud, depot_of: DepotOf) -> CloudObserved:
    """And, by two requests more, the weights that the record's current generation loads."""
    current = seen.record.current if seen.record else None
    name = str(current.summary.get("weights_name", "")) if current else ""
    depot = depot_of(cloud, seen.ref.bucket) if name and not seen.stranger else None
    if depot is None:
        return seen
    flaws = depot.weights.flaws(name)
    lost = f"the manifest of {name} is gone" if flaws is None else flaws_in_words(flaws)
    return replace(seen, weights_lost=lost)


def survey(ref: DeploymentRef, cloud: Cloud, depot_of: DepotOf) -> CloudObserved:
    """Everything that a teardown must know."""
    seen = observe(ref, cloud, depot_of, own_tags=True)
    seen = replace(seen, resources=tuple(_confirmed(seen, cloud)))
    return replace(
        seen,
        ownership=seen.ownership or _shared(seen, cloud),
        scaling=None if seen.stranger else cloud.scalers.scaling(ref.name),
        log_group="" if seen.stranger else cloud.logs.group(ref.name),
    )


def confirm(seen: CloudObserved, cloud: Cloud) -> CloudObserved:
    """With what is there in truth. The tag search lags behind: each thing is asked for where it lies."""
    resources, stranger, tags = _ours(seen.ref.name, seen.endpoint, seen.resources, cloud, own_tags=True)
    owned = ownership(seen.endpoint, tags, resources, seen.record) if stranger else ""
    seen = replace(seen, resources=resources, stranger=stranger, ownership=owned)
    return replace(seen, resources=tuple(_confirmed(seen, cloud)))


def _is_stale(resources: tuple[Resource, ...], record: Record | None) -> bool:
    """Whether the tag search shows other tags of the endpoint than were last put there, as far as is recorded."""
    endpoint = next((resource for resource in resources if resource.kind == "endpoint"), None)
    if endpoint is None or record is None or record.current is None:
        return False
    put = ((TAG_SPEC, record.current.spec), *told_tags(record.current.summary))
    return any(endpoint.tag(key) != value for key, value in put)


def judge_expiry(seen: CloudObserved, now: datetime) -> CloudObserved:
    """With what the endpoint's tag says of its end."""
    expires = next((r.tag(TAG_EXPIRES) for r in seen.resources if r.kind == "endpoint"), "")
    return replace(seen, expires=expires, expired=is_expired(expires, now))


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


def _shared(seen: CloudObserved, cloud: Cloud) -> str:
    return shared_model(seen.endpoint, seen.resources, cloud) if seen.stranger and seen.endpoint else ""


def _bucket(resources: tuple[Resource, ...], cloud: Cloud) -> str:
    named = (resource.tag(TAG_BUCKET) for resource in sorted(resources, key=lambda r: r.kind != "endpoint"))
    return next(filter(None, named), default_bucket(cloud.caller.account, cloud.caller.region))


def _stored(name: str, depot: Depot | None) -> dict[str, dict[str, int]]:
    """Stored artifacts by id: path and size of each file."""
    prefix, found = artifacts_prefix(name), defaultdict[str, dict[str, int]](dict)
    for stored in depot.store.list(prefix) if depot else ():
        stored_id, _, path = stored.key.removeprefix(prefix).partition("/")
        found[stored_id][path] = stored.size
    return dict(found)


def _confirmed(seen: CloudObserved, cloud: Cloud) -> Iterator[Resource]:
    """What is there in truth: of what the tags tell, and of what the record says was begun."""
    yield from (r for r in seen.resources if r.kind == "endpoint")
    for kind, name in sorted({(r.kind, r.name) for r in seen.resources} | recorded_names(seen.record)):
        if kind in ("endpoint-config", "model") and (resource := _there(kind, name, seen, cloud)):
            yield resource


def _there(kind: ResourceKind, name: str, seen: CloudObserved, cloud: Cloud) -> Resource | None:
    hosting = cloud.hosting
    found = hosting.endpoint_config(name) if kind == "endpoint-config" else hosting.model(name)
    listed = next((r for r in seen.resources if (r.kind, r.name) == (kind, name)), None)
    if found is not None and listed is not None:
        return listed
    if found is None and (kind, name) not in unfinished_names(seen.record):
        return None
    # One that an `up` made a moment before it ended may not be shown yet; its tags are.
    arn = found.arn if found else resource_arn(cloud.caller, kind, name)
    try:
        resource = Resource(kind=kind, name=name, arn=arn, tags=hosting.tags(arn))
    except NotFound:
        return None
    return resource if resource.tag(TAG) == seen.ref.name else None
