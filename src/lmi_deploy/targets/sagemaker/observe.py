"""The observed state of a deployment on SageMaker: found by tags, ownership checked, with the content of its bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.domain.sagemaker.expiry import is_expired
from lmi_deploy.domain.sagemaker.resource_names import JOB_KINDS, is_compile_job, is_own_resource
from lmi_deploy.domain.sagemaker.resource_settings import (
    SERVING_KINDS,
    TAG,
    TAG_BUCKET,
    TAG_EXPIRES,
    TAG_SPEC,
    ObservedEndpoint,
    Resource,
    ResourceKind,
)
from lmi_deploy.domain.sagemaker.scaling_actions import RemoveScaling, SetScaling
from lmi_deploy.errors import NotFound, Refused
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.targets.sagemaker.eventual_consistency import resource_arn
from lmi_deploy.targets.sagemaker.lost_record import rebuilt_record
from lmi_deploy.targets.sagemaker.observed_adapters import (
    with_adapters,
    with_listed_adapters,
)
from lmi_deploy.targets.sagemaker.observed_artifacts import own_artifacts, stored_artifacts
from lmi_deploy.targets.sagemaker.observed_components import (
    recorded_component,
    shared_endpoint,
    shared_name,
    sharing,
    tagged_component,
    with_recorded_copies,
)
from lmi_deploy.targets.sagemaker.observed_jobs import (
    running_compile_jobs,
    running_transfer_jobs,
    with_stored_jobs,
)
from lmi_deploy.targets.sagemaker.observed_scaling import (
    count_by_hand,
    kind_of,
    recorded_scaling_of,
    unrecorded_scaling,
)
from lmi_deploy.targets.sagemaker.observed_schedule import deletion_schedule
from lmi_deploy.targets.sagemaker.ownership import (
    ownership,
    parts_of,
    recorded_names,
    shared_model,
    unfinished_names,
)
from lmi_deploy.targets.sagemaker.plan.alarm_actions import is_recorded_with_alarms

BucketServicesOf = Callable[[Cloud, str], BucketServices | None]


def observe(
    ref: DeploymentRef, cloud: Cloud, depot_of: BucketServicesOf, *, own_tags: bool = False
) -> CloudObserved:
    """As few requests as possible: seven for a deployment that is in sync. With `own_tags` the endpoint's tags are read
    from SageMaker itself, not from the tag search, which lags.

    If another command deletes a resource between two reads, it looks again, once.
    """
    try:
        return _observe(ref, cloud, depot_of, own_tags=own_tags)
    except NotFound:
        with _undisturbed(ref.name):
            return _observe(ref, cloud, depot_of, own_tags=own_tags)


@contextmanager
def _undisturbed(name: str) -> Iterator[None]:
    """Refused if a resource goes between two reads."""
    try:
        yield
    except NotFound as gone:
        raise Refused(
            f"{name}: another command deletes it now: {gone.message}",
            hint="nothing was changed. Run the same command again when the other one has ended",
        ) from gone


def _observe(
    ref: DeploymentRef, cloud: Cloud, depot_of: BucketServicesOf, *, own_tags: bool
) -> CloudObserved:
    endpoint, searched = cloud.hosting.endpoint(ref.name), cloud.tagged.of(ref.name)
    compiling = tuple(r for r in searched if is_compile_job(r))
    tagged = tuple(r for r in searched if is_own_resource(r, ref.name) and r not in compiling)
    found = tuple(r for r in tagged if r.kind not in JOB_KINDS)
    component = tagged_component(ref.name, endpoint, found, cloud)
    serving = component.as_endpoint() if component else endpoint
    resources, foreign, tags = _owned_resources(ref.name, serving, found, cloud, own_tags=own_tags)
    bucket_services = depot_of(cloud, bucket := ref.bucket or _bucket(resources, cloud))
    record, damaged = bucket_services.records.examine(ref.name) if bucket_services else (None, "")
    rebuilt = None
    if record is None and bucket_services and not damaged and not foreign:
        located = _located(ref, bucket, serving, cloud)
        rebuilt = record = rebuilt_record(located, serving, resources, cloud, bucket_services.store)
    late = None if component else recorded_component(ref.name, endpoint, record, cloud)
    component = with_recorded_copies(component or late, record)
    serving = component.as_endpoint() if component else serving
    if late or (not own_tags and _is_stale(resources, record)):
        resources, foreign, tags = _owned_resources(ref.name, serving, found, cloud, own_tags=True)
    component, serving, adapters = with_adapters(component, serving, () if foreign else tagged, record, cloud)
    own, full = own_artifacts(stored := stored_artifacts(ref.name, bucket_services))
    owned = ownership(serving, tags, resources, record) if foreign else ""
    config, missing = parts_of(None if foreign and not owned else serving, ref.name, record, cloud)
    scaling, scaling_read = recorded_scaling_of(serving, foreign, record, cloud)
    elsewhere = unrecorded_scaling(serving, foreign, record, cloud)
    state = CloudObserved(
        ref=_located(ref, bucket, serving, cloud),
        record=record,
        record_damaged=damaged,
        record_rebuilt=rebuilt is not None,
        endpoint=serving,
        component=component,
        adapters=adapters,
        sharing=None if foreign else sharing(resources, cloud),
        config=config,
        resources=resources,
        misnamed=tuple(r for r in searched if r not in tagged and r.kind not in JOB_KINDS),
        not_owned_reason=foreign,
        ownership=owned,
        missing=tuple(sorted(missing)),
        jobs=running_transfer_jobs(ref.name, _of_kind("processing-job", tagged), record, cloud),
        compile_jobs=running_compile_jobs(compiling, cloud),
        artifacts=tuple(sorted(full)),
        incomplete_artifacts=tuple(sorted(own - full)),
        schedule=None if foreign else deletion_schedule(ref.name, resources, record, cloud),
        stored=stored,
        bucket=bucket_services is not None,
        scaling=scaling,
        scaling_read=scaling_read,
        scaling_elsewhere=None if record and any(record.started(SetScaling, RemoveScaling)) else elsewhere,
        count_by_hand=count_by_hand(serving, foreign, record, elsewhere),
    )
    return _with_alarms(state, cloud)


def _of_kind(kind: ResourceKind, resources: tuple[Resource, ...]) -> tuple[Resource, ...]:
    return tuple(resource for resource in resources if resource.kind == kind)


def _located(
    ref: DeploymentRef, bucket: str, serving: ObservedEndpoint | None, cloud: Cloud
) -> DeploymentRef:
    shared = serving.shared if serving else ref.shared
    caller = cloud.caller
    return replace(ref, region=caller.region, bucket=bucket, account=caller.account, shared=shared)


def _with_alarms(observed: CloudObserved, cloud: Cloud) -> CloudObserved:
    """And, of a deployment that is recorded with alarms, what they are: one request."""
    serves = observed.endpoint is not None and not observed.not_owned_reason
    if not serves or not is_recorded_with_alarms(observed.record):
        return observed
    return replace(observed, alarms=cloud.alarms.read(observed.ref.name), alarms_read=True)


def observe_all(ref: DeploymentRef, cloud: Cloud, depot_of: BucketServicesOf) -> CloudObserved:
    """Everything that a teardown must know."""
    observed = observe(ref, cloud, depot_of, own_tags=True)
    observed = replace(observed, resources=tuple(_confirmed(observed, cloud)))
    bucket_services = depot_of(cloud, observed.ref.bucket) if observed.bucket else None
    if bucket_services is not None:
        jobs = with_stored_jobs(observed.jobs, bucket_services.store, ref.name, cloud)
        observed = replace(observed, jobs=jobs)
    named = observed.endpoint.shared if observed.endpoint else ""
    shared = "" if observed.not_owned_reason else named or shared_name(observed.record)
    foreign = bool(observed.not_owned_reason)
    listed = shared_endpoint(shared, cloud, observed.record) if shared else None
    return replace(
        with_listed_adapters(observed, listed, cloud),
        ownership=observed.ownership or _shared(observed, cloud),
        scaling=None if foreign else observed.scaling or cloud.scalers.scaling(ref.name, kind_of(shared)),
        scaling_read=True,
        alarms=None if foreign else observed.alarms or cloud.alarms.read(ref.name),
        alarms_read=True,
        log_group="" if foreign else cloud.logs.group(ref.name, component=bool(shared)),
        shared=listed,
    )


def confirm(observed: CloudObserved, cloud: Cloud) -> CloudObserved:
    """The actual state. The tag search lags: each resource is looked up directly."""
    with _undisturbed(observed.ref.name):
        resources, foreign, tags = _owned_resources(
            observed.ref.name, observed.endpoint, observed.resources, cloud, own_tags=True
        )
    owned = ownership(observed.endpoint, tags, resources, observed.record) if foreign else ""
    observed = replace(observed, resources=resources, not_owned_reason=foreign, ownership=owned)
    return replace(observed, resources=tuple(_confirmed(observed, cloud)))


def _is_stale(resources: tuple[Resource, ...], record: Record | None) -> bool:
    """Whether the tag search shows other tags of the endpoint than were last set, as far as is recorded."""
    endpoint = next((resource for resource in resources if resource.kind in SERVING_KINDS), None)
    if endpoint is None or record is None or record.current is None:
        return False
    put = ((TAG_SPEC, record.current.spec), *record.current.serving.tags)
    return any(endpoint.tag(key) != value for key, value in put)


def check_expiry(observed: CloudObserved, now: datetime) -> CloudObserved:
    """With the expiry time from the endpoint's tag."""
    expires = next((r.tag(TAG_EXPIRES) for r in observed.resources if r.kind in SERVING_KINDS), "")
    return replace(observed, expires=expires, expired=is_expired(expires, now))


def _owned_resources(
    name: str, endpoint: ObservedEndpoint | None, found: tuple[Resource, ...], cloud: Cloud, *, own_tags: bool
) -> tuple[tuple[Resource, ...], str, Pairs]:
    """The resources with our tag; if the endpoint of this name is not ours, the reason and its tags."""
    if endpoint is None:
        # What the tag search still returns for a deleted endpoint.
        gone = SERVING_KINDS | {"adapter-component"}
        return tuple(resource for resource in found if resource.kind not in gone), "", ()
    kind: ResourceKind = "inference-component" if endpoint.shared else "endpoint"
    if not own_tags and any(resource.kind == kind for resource in found):
        return found, "", ()
    found = tuple(resource for resource in found if resource.kind not in SERVING_KINDS)
    tags = cloud.hosting.tags(endpoint.arn)
    owner = dict(tags).get(TAG)
    if owner == name:
        return (*found, Resource(kind=kind, name=name, arn=endpoint.arn, tags=tags)), "", tags
    output = f"its tag {TAG} says {owner}" if owner else f"it has no tag {TAG}"
    what = "a model" if endpoint.shared else "an endpoint"
    return found, f"{name}: {what} of that name exists, but lmi did not create it: {output}", tags


def _shared(observed: CloudObserved, cloud: Cloud) -> str:
    return (
        shared_model(observed.endpoint, observed.resources, cloud)
        if observed.not_owned_reason and observed.endpoint
        else ""
    )


def _bucket(resources: tuple[Resource, ...], cloud: Cloud) -> str:
    named = (
        resource.tag(TAG_BUCKET) for resource in sorted(resources, key=lambda r: r.kind not in SERVING_KINDS)
    )
    return next(filter(None, named), default_bucket(cloud.caller.account, cloud.caller.region))


def _confirmed(observed: CloudObserved, cloud: Cloud) -> Iterator[Resource]:
    """What actually exists: of the resources found by tags, and of those that the record says were started."""
    yield from (r for r in observed.resources if r.kind in SERVING_KINDS)
    for kind, name in sorted(
        {(r.kind, r.name) for r in observed.resources} | recorded_names(observed.record)
    ):
        if kind in ("endpoint-config", "model") and (
            resource := _existing_resource(kind, name, observed, cloud)
        ):
            yield resource


def _existing_resource(
    kind: ResourceKind, name: str, observed: CloudObserved, cloud: Cloud
) -> Resource | None:
    hosting = cloud.hosting
    found = hosting.endpoint_config(name) if kind == "endpoint-config" else hosting.model(name)
    listed = next((r for r in observed.resources if (r.kind, r.name) == (kind, name)), None)
    if found is not None and listed is not None:
        return listed
    if found is None and (kind, name) not in unfinished_names(observed.record):
        return None
    # A job that an `up` created just before it stopped may not be listed yet; its tags are.
    arn = found.arn if found else resource_arn(cloud.caller, kind, name)
    try:
        resource = Resource(kind=kind, name=name, arn=arn, tags=hosting.tags(arn))
    except NotFound:
        return None
    return resource if resource.tag(TAG) == observed.ref.name else None


def with_other_locations(
    observed: CloudObserved, known: Callable[[], Iterable[DeploymentRef]]
) -> CloudObserved:
    """Nothing found may mean the wrong account or region: the others that this machine knows."""
    if observed.exists:
        return observed
    local = (observed.ref.name, observed.ref.account, observed.ref.region)
    named = (ref for ref in known() if ref.name == observed.ref.name)
    others = tuple(ref for ref in named if (ref.name, ref.account, ref.region) != local)
    return replace(observed, other_locations=others)
