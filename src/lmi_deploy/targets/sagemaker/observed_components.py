"""Inference components and the endpoints that they share, as they are now."""

from __future__ import annotations

from dataclasses import replace

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.record import Record
from lmi_deploy.domain.sagemaker.component_actions import CreateSharedEndpoint
from lmi_deploy.domain.sagemaker.component_settings import ObservedComponent, SharedEndpoint
from lmi_deploy.domain.sagemaker.resource_names import is_resource_name
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG,
    TAG_SHARED,
    ObservedEndpoint,
    Resource,
)
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.targets.sagemaker.eventual_consistency import resource_arn


def tagged_component(
    name: str, endpoint: ObservedEndpoint | None, found: tuple[Resource, ...], cloud: Cloud
) -> ObservedComponent | None:
    """The component of this name, if the tag search shows one. No other deployment needs the request."""
    if endpoint is not None or not any(resource.kind == "inference-component" for resource in found):
        return None
    return cloud.components.component(name)


def recorded_component(
    name: str, endpoint: ObservedEndpoint | None, record: Record | None, cloud: Cloud
) -> ObservedComponent | None:
    """The same, if the record says that one was created: the tag search may lag."""
    if endpoint is not None or not shared_name(record):
        return None
    return cloud.components.component(name)


def with_recorded_copies(
    component: ObservedComponent | None, record: Record | None
) -> ObservedComponent | None:
    """Under the number of copies by which a generation is recorded: of those that match, the current one."""
    if component is None or record is None:
        return component
    known = [generation.serving.cloud.component for generation in reversed(record.known)]
    if record.current is not None:
        known.insert(0, record.current.serving.cloud.component)
    return component.as_recorded(settings for settings in known if settings is not None)


def shared_name(record: Record | None) -> str:
    """The endpoint that a recorded generation shares; empty without one."""
    if record is None:
        return ""
    places = (generation.serving.cloud.component for generation in reversed(record.known))
    named = next((settings.place.endpoint for settings in places if settings is not None), "")
    started = (str(intent.names["endpoint"]) for intent in record.started(CreateSharedEndpoint))
    return named or next(started, "")


def shared_endpoint(name: str, cloud: Cloud, record: Record | None = None) -> SharedEndpoint:
    """With every component on it: a request for each; and with the configs that the record says were started, which the
    tag search may not show yet.
    """
    endpoint = cloud.hosting.endpoint(name)
    searched = {
        resource.name
        for resource in cloud.tagged.of(name)
        if resource.kind == "endpoint-config"
        and resource.tag(TAG_SHARED)
        and is_resource_name(resource.kind, resource.name, name)
    }
    started = _started_configs(name, record, cloud) if record and endpoint is None else frozenset()
    configs = tuple(sorted(searched | started))
    if endpoint is None:
        return SharedEndpoint(name=name, endpoint=None, configs=configs)
    reason = _not_shared_reason(name, dict(cloud.hosting.tags(endpoint.arn)))
    if reason:
        return SharedEndpoint(name=name, endpoint=endpoint, not_owned_reason=reason)
    listed = [cloud.components.component(each.name) for each in cloud.components.listed(name)]
    return SharedEndpoint(
        name=name,
        endpoint=endpoint,
        config=cloud.hosting.endpoint_config(endpoint.config),
        components=tuple(each for each in listed if each is not None),
        configs=tuple(sorted({*configs, endpoint.config})),
    )


def with_wanted_count(
    shared: SharedEndpoint, spec: Spec, bucket_services: BucketServices | None
) -> SharedEndpoint:
    """And, if it has more instances than this recipe wants, what the others want: a request for each record in the
    bucket. One of an `up` that is in progress counts, too.
    """
    endpoint = shared.endpoint
    if endpoint is None or bucket_services is None or endpoint.desired_count <= spec.cloud.count:
        return shared
    wanted, unknown = 0, {each.name for each in shared.others(spec.name)}
    for name in dict.fromkeys((*unknown, *bucket_services.records.names())):
        if wanted >= endpoint.desired_count:
            return replace(shared, wanted=wanted)
        record = bucket_services.records.read(name) if name != spec.name else None
        for generation in (*record.generations[-1:], *record.known[-1:]) if record else ():
            if generation.serving.shared == shared.name:
                wanted = max(wanted, generation.serving.cloud.count)
                unknown.discard(name)
    return shared if unknown else replace(shared, wanted=wanted)


def _started_configs(name: str, record: Record, cloud: Cloud) -> frozenset[str]:
    intents = (intent.names for intent in record.started(CreateSharedEndpoint))
    named = {str(names["config"]) for names in intents if names["endpoint"] == name}
    return frozenset(config for config in named if _is_ours(config, name, cloud))


def _is_ours(config: str, endpoint: str, cloud: Cloud) -> bool:
    """By its tags: they can be read before the config itself can."""
    try:
        tags = dict(cloud.hosting.tags(resource_arn(cloud.caller, "endpoint-config", config)))
    except NotFound:
        return False
    return tags.get(TAG) == endpoint and TAG_SHARED in tags


def sharing(resources: tuple[Resource, ...], cloud: Cloud) -> tuple[str, ...] | None:
    """The models on an endpoint that is shared; None for any other deployment."""
    endpoint = next((resource for resource in resources if resource.kind == "endpoint"), None)
    if endpoint is None or not endpoint.tag(TAG_SHARED):
        return None
    listed = [cloud.components.component(each.name) for each in cloud.components.listed(endpoint.name)]
    return tuple(each.name for each in listed if each is not None and not each.base)


def _not_shared_reason(name: str, tags: dict[str, str]) -> str:
    if tags.get(TAG) == name and tags.get(TAG_SHARED):
        return ""
    if tags.get(TAG) == name:
        return f"{name}: it is the endpoint of the deployment {name}, and not shared"
    return f"{name}: an endpoint of that name exists, but lmi did not create it: it has no tag {TAG_SHARED}"
