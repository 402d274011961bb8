"""The adapter components of a deployment on a shared endpoint, as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import Record
from lmi_deploy.domain.sagemaker.adapter_actions import CreateAdapterComponent
from lmi_deploy.domain.sagemaker.component_settings import ObservedComponent, SharedEndpoint
from lmi_deploy.domain.sagemaker.resource_names import is_resource_name
from lmi_deploy.domain.sagemaker.resource_settings import TAG, ObservedEndpoint, Resource
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.cloud import Cloud


def _observed_adapters(
    deployment: str, tagged: Iterable[Resource], record: Record | None, cloud: Cloud
) -> tuple[ObservedComponent, ...]:
    """Sorted by name: those that the tag search shows, and those that the record names, because the search lags. A
    request for each of them; none for a deployment without any.
    """
    found = {resource.name for resource in tagged if resource.kind == "adapter-component"}
    adapters = {name: cloud.components.component(name) for name in sorted(found | _recorded(record))}
    return tuple(
        each
        for name, each in adapters.items()
        if each is not None
        and each.base == deployment
        and (name in found or _is_ours(each, deployment, cloud))
    )


def with_adapters(
    component: ObservedComponent | None,
    serving: ObservedEndpoint | None,
    tagged: Iterable[Resource],
    record: Record | None,
    cloud: Cloud,
) -> tuple[ObservedComponent | None, ObservedEndpoint | None, tuple[ObservedComponent, ...]]:
    """The component of the model, what the rest of the deployment knows of it, and its adapters. SageMaker has no
    adapters without their model.
    """
    if component is None:
        return None, serving, ()
    adapters = _observed_adapters(component.name, tagged, record, cloud)
    component = component.with_adapters(adapters)
    return component, component.as_endpoint(), adapters


def with_listed_adapters(
    observed: CloudObserved, shared: SharedEndpoint | None, cloud: Cloud
) -> CloudObserved:
    """And those that only the list of the endpoint's components shows: SageMaker deletes no model with an adapter."""
    known = {each.name for each in observed.adapters}
    listed = shared.components if shared is not None and not observed.not_owned_reason else ()
    more = (
        each
        for each in listed
        if each.base == observed.ref.name
        and each.name not in known
        and is_resource_name("adapter-component", each.name, observed.ref.name)
        and _is_ours(each, observed.ref.name, cloud)
    )
    adapters = sorted((*observed.adapters, *more), key=lambda each: each.name)
    return replace(observed, adapters=tuple(adapters))


def _recorded(record: Record | None) -> frozenset[str]:
    if record is None:
        return frozenset()
    places = (generation.serving.cloud.component for generation in record.known)
    named = (each.component for place in places if place is not None for each in place.adapters)
    return frozenset((*named, *_started(record)))


def _started(record: Record) -> Iterator[str]:
    return (str(intent.names["component"]) for intent in record.started(CreateAdapterComponent))


def _is_ours(adapter: ObservedComponent, deployment: str, cloud: Cloud) -> bool:
    try:
        return dict(cloud.hosting.tags(adapter.arn)).get(TAG) == deployment
    except NotFound:
        return False
