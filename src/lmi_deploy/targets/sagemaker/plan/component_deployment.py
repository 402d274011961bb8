"""The plan of a model on a shared endpoint: the endpoint if it is missing, then its inference component alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from lmi_deploy.catalog.instances import instance
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.sagemaker.actions import CreateModel, ProbeEndpoint
from lmi_deploy.domain.sagemaker.component_actions import (
    AwaitInferenceComponent,
    CreateInferenceComponent,
    CreateSharedEndpoint,
    DeleteInferenceComponent,
    DeleteSharedEndpoint,
    SetCopyCount,
    UpdateInferenceComponent,
)
from lmi_deploy.domain.sagemaker.component_settings import (
    UNREPAIRABLE,
    ComponentPlace,
    ComponentSettings,
    ObservedComponent,
    SharedEndpoint,
)
from lmi_deploy.domain.sagemaker.resource_names import resource_name
from lmi_deploy.domain.sagemaker.resource_settings import (
    SETTLING,
    EndpointConfigSettings,
    ObservedEndpoint,
)
from lmi_deploy.domain.sagemaker.scaling_actions import RemoveScaling, SetInstanceCount
from lmi_deploy.domain.sagemaker.tags import tags_of
from lmi_deploy.errors import Refused, Unresolvable
from lmi_deploy.sizing.component_packing import InstanceShare, unplaced, whole
from lmi_deploy.targets.sagemaker.component_place import share_of
from lmi_deploy.targets.sagemaker.desired_state import PROVISION, DesiredState, wait_timeout
from lmi_deploy.targets.sagemaker.plan.adapter_components import (
    adapter_tags,
    remove_adapters,
    serve_adapters,
)
from lmi_deploy.targets.sagemaker.plan.dashboard_actions import remove_dashboard
from lmi_deploy.targets.sagemaker.plan.expiry_actions import set_expiry
from lmi_deploy.targets.sagemaker.plan.resource_actions import existing, restore
from lmi_deploy.targets.sagemaker.plan.scaling_actions import restore_count, scaled, set_scaling
from lmi_deploy.targets.sagemaker.plan.tag_actions import tagging

_SERVING: Final = frozenset(
    {"InService", "Updating", "SystemUpdating", "RollingBack", "UpdateRollbackFailed"}
)


def serve_component(
    spec: Spec, desired: DesiredState, observed: CloudObserved, inventory: CloudInventory
) -> Iterator[Action]:
    """Refused if the shared endpoint is not lmi's, or another than the recipe's; Unresolvable without room on it."""
    shared = inventory.shared
    assert shared is not None
    require_same_endpoint(spec, desired, shared)
    yield from _serve(spec, desired, observed, shared)
    yield from _fewer_instances(spec, shared)


def _serve(
    spec: Spec, desired: DesiredState, observed: CloudObserved, shared: SharedEndpoint
) -> Iterator[Action]:
    current, settings = observed.component, desired.component
    assert settings is not None
    lost = current is not None and current.status in UNREPAIRABLE
    removed, adapters = _adapters(spec, settings, observed, lost=lost)
    if current is not None and not lost:
        yield from set_expiry(spec, observed)
        # While it is updated, the settings that it will have are not shown.
        if current.settings.alone == settings.alone and current.status != "Updating":
            yield from _keep(spec, desired, observed, shared, (removed, adapters))
            return
    _require_room(spec, shared)
    if desired.model not in existing(observed, "model"):
        yield CreateModel(model=desired.model, settings=desired.settings)
    yield from remove_dashboard(observed) if current is None or lost else ()
    yield from _endpoint(spec, desired.configs[0].settings, shared)
    # Before the model: SageMaker deletes none with adapters, and the new one may accept none.
    yield from removed
    if lost:
        if scaled(observed):
            yield RemoveScaling(endpoint=spec.name, of="component")
        yield DeleteInferenceComponent(component=spec.name)
    if current is None or lost:
        yield CreateInferenceComponent(component=spec.name, settings=settings.alone, tags=spec.cloud.tags)
        yield from settle_component(spec, desired, adapters)
        yield from set_scaling(spec, observed, created=True)
        return
    kept = spec.cloud.scaling if scaled(observed) else None
    yield UpdateInferenceComponent(
        component=spec.name,
        settings=settings.alone,
        least=kept.least if kept else 0,
        most=kept.highest if kept else 0,
    )
    yield from settle_component(spec, desired, adapters)
    yield from set_scaling(spec, observed, created=False)
    yield from tagging(observed, tags_of(spec))


def _keep(
    spec: Spec,
    desired: DesiredState,
    observed: CloudObserved,
    shared: SharedEndpoint,
    changed: tuple[tuple[Action, ...], tuple[Action, ...]],
) -> Iterator[Action]:
    """The component has the recipe's settings. `changed`: the actions that remove adapters, and that serve them."""
    current, pending = observed.component, observed.record and observed.record.coming
    removed, adapters = changed
    assert current is not None
    yield from _more_instances(spec, shared)
    yield from removed
    if (pending or adapters) and current.status == "InService" and not current.requested_copies:
        # An `up` that was interrupted before its probe, or new adapters: both need a copy.
        yield SetCopyCount(component=spec.name, copies=1, timeout=wait_timeout(spec))
        yield from settle_component(spec, desired, adapters, wait=False)
    elif current.status in SETTLING or adapters:
        yield from settle_component(spec, desired, adapters, wait=current.status in SETTLING)
    yield from restore(desired, desired.configs[0], observed)
    if scaling := tuple(set_scaling(spec, observed, created=False)):
        _require_room(spec, shared)
    yield from scaling
    yield from restore_count(spec, observed, current.as_endpoint())
    yield from tagging(observed, tags_of(spec))


def _adapters(
    spec: Spec, settings: ComponentSettings, observed: CloudObserved, *, lost: bool
) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """The actions that remove adapters, and those that serve them: all of both if the model is created again."""
    return (
        tuple(remove_adapters(None if lost else settings, observed)),
        tuple(serve_adapters(settings, adapter_tags(spec), observed, recreated=lost)),
    )


def settle_component(
    spec: Spec, desired: DesiredState, adapters: tuple[Action, ...], *, wait: bool = True
) -> Iterator[Action]:
    """The model first: SageMaker adds adapters to one that is in service."""
    assert desired.component is not None
    if wait:
        yield AwaitInferenceComponent(
            component=spec.name,
            config=desired.component.alone.name(spec.name),
            timeout=wait_timeout(spec),
            copies=_place(spec).copies if spec.cloud.scaling else 0,
        )
    yield from adapters
    yield ProbeEndpoint(endpoint=spec.name, probe=spec.probe, shared=_place(spec).endpoint)


def require_no_other_kind(spec: Spec, observed: CloudObserved) -> None:
    """Refused if the deployment would move: between an endpoint of its own and a shared one, or to another one."""
    if observed.sharing is not None:
        raise Refused(
            f"{spec.name}: it is a shared endpoint, with {', '.join(observed.sharing) or 'no model on it'}",
            hint="choose another name in the recipe. Nothing was changed",
        )
    if observed.endpoint is None or observed.not_owned_reason:
        return
    desired = spec.cloud.component.endpoint if spec.cloud.component else ""
    if observed.endpoint.shared != desired:
        now = f"on the shared endpoint {observed.endpoint.shared}" if observed.endpoint.shared else "alone"
        then = f"it on {desired}" if desired else "an endpoint of its own"
        raise Refused(
            f"{spec.name}: it runs {now}, and the recipe wants {then}; SageMaker moves no model",
            hint=f"run `{spec.ref.command('down')}` first, or choose another name in the recipe",
        )


def require_same_endpoint(spec: Spec, desired: DesiredState, shared: SharedEndpoint) -> None:
    """Refused if the endpoint exists and is not lmi's, or not what this recipe needs."""
    if shared.not_owned_reason:
        raise Refused(
            shared.not_owned_reason, hint="choose another name for endpoint.share. Nothing was changed"
        )
    if shared.config is None or shared.endpoint is None or shared.endpoint.status not in _SERVING:
        return
    wanted, found = desired.configs[0].settings, shared.config.settings
    different = [
        f"{key} {now or 'none'}, and this recipe says {then or 'none'}"
        for key, now, then in (
            ("instance_type", found.instance, wanted.instance),
            ("endpoint.kms_key", found.kms_key, wanted.kms_key),
            ("endpoint.vpc", _vpc_words(found), _vpc_words(wanted)),
            ("the host's image", found.host_ami, wanted.host_ami or found.host_ami),
        )
        if now != then
    ]
    if found.instance_scaling != wanted.instance_scaling:
        now, then = (
            each.words if each else "none" for each in (found.instance_scaling, wanted.instance_scaling)
        )
        different.append(f"endpoint.instance_scaling {now}, and this recipe says {then}")
    if wanted.volume_gb > found.volume_gb > 0:
        different.append(f"volumes of {found.volume_gb} GB, and this model needs {wanted.volume_gb} GB")
    if different:
        raise Refused(
            f"the shared endpoint {shared.name} has {'; '.join(different)}",
            hint="change this recipe, choose another endpoint.share, or run `lmi down` for every model of "
            f"{shared.name}",
        )


def shared_endpoint_config_name(spec: Spec, settings: EndpointConfigSettings) -> str:
    return resource_name(_place(spec).endpoint, settings)


def _endpoint(spec: Spec, settings: EndpointConfigSettings, shared: SharedEndpoint) -> Iterator[Action]:
    endpoint = shared.endpoint
    if endpoint is not None and endpoint.status in _SERVING:
        yield from _more_instances(spec, shared)
        return
    if endpoint is not None and endpoint.status not in SETTLING:
        yield DeleteSharedEndpoint(endpoint=shared.name, configs=shared.configs)
    yield CreateSharedEndpoint(
        endpoint=shared.name,
        config=shared_endpoint_config_name(spec, settings),
        settings=settings,
        tags=spec.cloud.tags,
        timeout=2 * PROVISION,
    )


def _more_instances(spec: Spec, shared: SharedEndpoint) -> Iterator[Action]:
    """The endpoint has as many instances as the recipe that wants the most of them."""
    endpoint, wanted = shared.endpoint, spec.cloud.count
    if spec.cloud.instance_scaling is not None:
        return  # SageMaker adds them itself
    if endpoint is not None and endpoint.status in _SERVING and _instances(endpoint) < wanted:
        yield SetInstanceCount(endpoint=shared.name, count=wanted, timeout=2 * PROVISION)


def _fewer_instances(spec: Spec, shared: SharedEndpoint) -> Iterator[Action]:
    """If no other recipe wants as many, and the copies that run fit onto fewer."""
    endpoint, machine = shared.endpoint, instance(spec.cloud.placements[0].instance)
    total = whole(machine) if machine else None
    if shared.wanted is None or spec.cloud.instance_scaling is not None or total is None:
        return
    if endpoint is None or endpoint.status != "InService":
        return
    others = [share for each in shared.others(spec.name) for share in _copies(each)]
    copies = [*others, *[share_of(_place(spec))] * _most_copies(spec)]
    fewer = range(max(spec.cloud.count, shared.wanted), _instances(endpoint))
    if enough := next((number for number in fewer if not unplaced(copies, total, number)), 0):
        yield SetInstanceCount(endpoint=shared.name, count=enough, timeout=2 * PROVISION)


def _most_copies(spec: Spec) -> int:
    return max(_place(spec).copies, spec.cloud.scaling.highest if spec.cloud.scaling else 0)


def _instances(endpoint: ObservedEndpoint) -> int:
    return max(endpoint.desired_count, endpoint.count)


def _require_room(spec: Spec, shared: SharedEndpoint) -> None:
    """Beside the copies of the other models; an instance type that the catalog knows only by name is not checked."""
    place, placement = _place(spec), spec.cloud.placements[0]
    machine = instance(placement.instance)
    total = whole(machine) if machine else None
    if total is None:
        return
    others = [each for each in shared.others(spec.name) if each.status not in UNREPAIRABLE]
    running = _instances(shared.endpoint) if shared.endpoint else 0
    copies = [share for each in others for share in _copies(each)]
    most = _most_copies(spec)
    own, number = [share_of(place)] * most, max(running, spec.cloud.instances[1])
    left = unplaced([*copies, *own], total, number)
    if not left:
        return
    enough = next(n for n in count(number + 1) if not unplaced([*copies, *own], total, n))
    key = "endpoint.instance_scaling.max" if spec.cloud.instance_scaling else "endpoint.count"
    there = "; ".join(f"{each.name} {_words(each.settings.place, each.requested_copies)}" for each in others)
    raise Unresolvable(
        f"the shared endpoint {shared.name} has no room for {spec.name}: it needs {_words(place, most)}; {number} x "
        f"{placement.instance} has {total.words} each"
        + (f", of which others take: {there}" if there else ""),
        hint=f"set {key}: {enough}, ask for less (endpoint.component), or use fewer copies",
    )


def _copies(component: ObservedComponent) -> list[InstanceShare]:
    place = component.settings.place
    return [share_of(place)] * max(place.copies, component.copies)


def _words(place: ComponentPlace, copies: int) -> str:
    return f"{copies} x ({share_of(place).words})"


def _vpc_words(settings: EndpointConfigSettings) -> str:
    return ", ".join((*settings.vpc.subnets, *settings.vpc.security_groups)) if settings.vpc else ""


def _place(spec: Spec) -> ComponentPlace:
    assert spec.cloud.component is not None, "only a model on a shared endpoint"
    return spec.cloud.component
