"""What the buckets have of the weights that a deployment loads, and of the image that it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.image_build import local_image, repository_name
from lmi_deploy.domain.in_place_weights import InPlaceWeights, object_changes, object_changes_text
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.sagemaker.s3_layout import weights_of
from lmi_deploy.domain.weights import integrity_issues_text
from lmi_deploy.errors import AccessError, NotFound
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.image_builder import ImageBuilder
from lmi_deploy.ports.object_store import object_versions
from lmi_deploy.targets.sagemaker.observe import BucketServicesOf


def inventory(
    spec: Spec, bucket_services: BucketServices | None, bucket_in: Callable[[str], BucketServices | None]
) -> CloudInventory:
    """Weights in place are where the container reads them: nothing of them is moved."""
    in_place = spec.weights.in_place is not None
    issues = bucket_services.weights.flaws(weights_of(spec)) if bucket_services and not in_place else None
    found = CloudInventory(
        bucket=bucket_services is not None,
        weights=in_place or issues == (),
        weights_flaws=issues or (),
        missing_additional=frozenset(
            name
            for name in {each.weights_name for each in spec.weights.additional}
            if bucket_services is None or bucket_services.weights.flaws(name) != ()
        ),
        priced=False,
    )
    return _with_copies(found, spec, bucket_in)


def _with_copies(
    inventory: CloudInventory, spec: Spec, bucket_in: Callable[[str], BucketServices | None]
) -> CloudInventory:
    """And which of the missing weights the bucket of another region of the recipe has: three requests for each that is
    asked.
    """
    names = {*inventory.missing_additional, *(() if inventory.weights else (weights_of(spec),))}
    found: dict[str, str] = {}
    for region in spec.cloud.regions:
        if region == spec.cloud.region or names <= {*found}:
            continue
        if services := bucket_in(region):
            found |= {name: region for name in names - {*found} if services.weights.flaws(name) == ()}
    return replace(inventory, copies=found)


def region_bucket(
    region: str, cloud_of: Callable[[str], Cloud], depot_of: BucketServicesOf
) -> BucketServices | None:
    """The account's default bucket of a region; None if there is none."""
    cloud = cloud_of(region)
    return depot_of(cloud, default_bucket(cloud.caller.account, cloud.caller.region))


def with_weights(observed: CloudObserved, cloud: Cloud, depot_of: BucketServicesOf) -> CloudObserved:
    """And, by two requests more, the weights that the record's current generation loads."""
    current = observed.record.current if observed.record else None
    names = current.serving.loaded_weights if current else ()
    bucket_services = (
        depot_of(cloud, observed.ref.bucket) if names and not observed.not_owned_reason else None
    )
    if bucket_services is None:
        return observed
    lost = (_lost(name, bucket_services) for name in names)
    return replace(observed, weights_missing_reason=next(filter(None, lost), ""))


def with_in_place(observed: CloudObserved, cloud: Cloud, depot_of: BucketServicesOf) -> CloudObserved:
    """And, by two requests more, whether the weights in place are as they were when they were deployed."""
    current = observed.record.current if observed.record else None
    weights = current.serving.in_place if current else None
    if weights is None or observed.not_owned_reason:
        return observed
    prefix = read_prefix(weights.address)
    try:
        bucket_services = depot_of(cloud, prefix.bucket)
        listed = list(bucket_services.store.list(prefix.path)) if bucket_services else []
    except AccessError as error:
        return replace(observed, weights_unchecked_reason=error.message)
    changes = object_changes(weights, replace(weights, files=object_versions(prefix, listed)))
    return replace(observed, weights_changed_reason=object_changes_text(changes))


def _lost(name: str, bucket_services: BucketServices) -> str:
    """What the bucket lacks of these weights; empty if they are complete."""
    issues = bucket_services.weights.flaws(name)
    return f"the manifest of {name} was deleted" if issues is None else integrity_issues_text(issues)


def with_image(
    inventory: CloudInventory, spec: Spec, cloud_of: Callable[[str], Cloud], builder: ImageBuilder
) -> CloudInventory:
    """And, by two requests more, where the image is that lmi builds."""
    build = spec.cloud.build
    if build is None:
        return inventory
    return replace(
        inventory,
        image_built=builder.exists(local_image(spec.name, build.tag)),
        repository=cloud_of(spec.cloud.region).images.repository(repository_name(spec.name)),
    )


def require_readable(weights: InPlaceWeights, cloud: Cloud) -> None:
    """AccessError if the bucket is another account's, or in another region than the endpoint: "The model artifacts must
    be in an S3 bucket that is in the same region as the model or endpoint you are creating" (SageMaker API reference,
    ContainerDefinition).
    """
    prefix, caller = read_prefix(weights.address), cloud.caller
    try:
        exists = cloud.account.has_bucket(prefix.bucket)
    except AccessError as error:
        error.hint = (
            f"an endpoint reads weights in place only from a bucket of its account ({caller.account}) and region "
            f"({caller.region}): set endpoint.region to the bucket's, or omit weights.in_place and lmi copies the model"
        )
        raise
    if not exists:
        raise NotFound(f"s3://{prefix.bucket}: no such bucket", hint="check model_id (`aws s3 ls`)")


def with_candidate(inventory: CloudInventory, spec: Spec, second: CloudInventory) -> CloudInventory:
    """And of the candidate; weights that both versions have are moved once, for the first."""
    assert spec.candidate is not None
    own = {weights_of(spec), *(each.weights_name for each in spec.weights.additional)}
    stored = second.weights or weights_of(spec.candidate.spec) in own
    missing = second.missing_additional - own
    return replace(inventory, candidate=replace(second, weights=stored, missing_additional=missing))
