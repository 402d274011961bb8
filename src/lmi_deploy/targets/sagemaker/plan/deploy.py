"""Target sagemaker: names contain digests, so an existing resource of the desired name is the desired one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.domain.plan import Action, Change, Plan
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.actions import (
    AwaitService,
    CreateEndpoint,
    DeleteEndpoint,
    ProbeEndpoint,
    UpdateEndpoint,
)
from lmi_deploy.domain.sagemaker.component_actions import DeleteInferenceComponent
from lmi_deploy.domain.sagemaker.resource_settings import (
    SERVING_KINDS,
    SETTLING,
    TAG_BUCKET,
    ObservedEndpoint,
)
from lmi_deploy.domain.sagemaker.scaling_actions import RemoveScaling
from lmi_deploy.domain.sagemaker.tags import tags_of
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.errors import Refused
from lmi_deploy.planning.serving_changes import changes, in_place_changes
from lmi_deploy.targets.sagemaker.desired_state import (
    DesiredEndpointConfig,
    DesiredState,
    desired_state,
    wait_timeout,
)
from lmi_deploy.targets.sagemaker.lost_ownership_tag import require_ownership_tag
from lmi_deploy.targets.sagemaker.plan.adoption import end_foreign_scaling
from lmi_deploy.targets.sagemaker.plan.alarm_actions import alarm_actions, alarm_changes
from lmi_deploy.targets.sagemaker.plan.component_deployment import require_no_other_kind, serve_component
from lmi_deploy.targets.sagemaker.plan.dashboard_actions import remove_dashboard
from lmi_deploy.targets.sagemaker.plan.expiry_actions import expiry_changes, schedule_new, set_expiry
from lmi_deploy.targets.sagemaker.plan.image_actions import delete_unused_images, image_actions
from lmi_deploy.targets.sagemaker.plan.instance_count import count_change, live_types, recipe_count
from lmi_deploy.targets.sagemaker.plan.resource_actions import (
    clear,
    create_settings,
    is_endpoint_config_lost,
    kept_images,
    require_readable_record,
    resource_names,
    restore,
)
from lmi_deploy.targets.sagemaker.plan.scaling_actions import restore_count, scaled, set_scaling
from lmi_deploy.targets.sagemaker.plan.scaling_drift import scaling_changes
from lmi_deploy.targets.sagemaker.plan.storage_actions import damage, storage_actions
from lmi_deploy.targets.sagemaker.plan.summary import serving
from lmi_deploy.targets.sagemaker.plan.tag_actions import tagging
from lmi_deploy.targets.sagemaker.plan.traffic import (
    traffic_action,
    traffic_changes,
    update_policy,
)

_FOR_GOOD = frozenset({"Failed", "OutOfService", "Deleting"})
"""States that no update can repair: such an endpoint is deleted and created again."""


def diff(spec: Spec, artifact: Artifact, observed: CloudObserved, inventory: CloudInventory) -> Plan:
    """Refused if the endpoint of this name is not ours, or another process is changing it."""
    desired = desired_state(spec, artifact)
    _require_owned(spec, desired, observed)
    serve = _serve if desired.component is None else serve_component
    actions = (
        *image_actions(spec, inventory),
        *storage_actions(spec, artifact, observed, inventory),
        *serve(spec, desired, observed, inventory),
        *clear(spec, artifact, desired, observed),
        *delete_unused_images(spec, kept_images(desired, observed), inventory.repository),
    )
    return Plan(
        deployment=spec.name,
        actions=actions,
        changes=(*_changes(serving(spec, artifact, desired), spec, observed), *damage(inventory))
        if actions
        else (),
    )


def _changes(desired: ServingRecord, spec: Spec, observed: CloudObserved) -> tuple[Change, ...]:
    current = observed.record.current if observed.record and observed.serving else None
    if current is not None:
        current = _as_described(current, observed)
    changed = (*changes(current, desired), *in_place_changes(current, desired))
    changed = scaling_changes(changed, observed, spec.cloud.scaling, spec.cloud.scalable_kind)
    changed = alarm_changes(changed, observed, spec.cloud.alarms)
    changed = traffic_changes(changed, observed)
    if observed.count_by_hand is not None:
        changed = count_change(changed, observed.count_by_hand, recipe_count(spec), spec.cloud.scalable_kind)
    return (*changed, *expiry_changes(spec, observed)) if observed.endpoint else changed


def _as_described(current: Generation, observed: CloudObserved) -> Generation:
    """With instances and model of a config that another tool made and the endpoint has now."""
    endpoint, config = observed.endpoint, observed.config
    if endpoint is None or config is None or config.name == current.server or not config.settings.instance:
        return current
    settings = config.settings
    place = replace(
        current.serving.cloud,
        model=settings.model,
        placements=(settings.placement,),
        count=endpoint.desired_count,
        kms_key=settings.kms_key,
    )
    return replace(current, serving=replace(current.serving, place=place))


def _require_owned(spec: Spec, desired: DesiredState, observed: CloudObserved) -> None:
    endpoint = observed.endpoint
    require_ownership_tag(observed)
    require_readable_record(observed)
    if observed.not_owned_reason:
        raise Refused(
            observed.not_owned_reason,
            hint=f"choose another name in the recipe, or take the endpoint over: "
            f"{spec.ref.command('adopt')} --take. Nothing was changed",
        )
    require_no_other_kind(spec, observed)
    _require_same_bucket(spec, observed)
    if endpoint is None or endpoint.status not in SETTLING or endpoint.status == "SystemUpdating":
        return
    if endpoint.status == "Deleting":
        if not _intended(observed, DeleteEndpoint, DeleteInferenceComponent):
            raise Refused(
                f"{spec.name}: another process is deleting its endpoint",
                hint=f"wait until it is deleted (`{spec.ref.command('status')}`), then run the same command again",
            )
    elif not _is_owned_target(target_endpoint_config(endpoint), desired, observed):
        raise Refused(
            f"{spec.name}: another process is changing the endpoint: {endpoint.status}, to "
            f"{target_endpoint_config(endpoint)}",
            hint=f"wait with `{spec.ref.command('wait')}`, then run the same command again",
        )


def _require_same_bucket(spec: Spec, observed: CloudObserved) -> None:
    """Its record and its artifacts are in it: with another bucket lmi would no longer find them."""
    live = next((r.tag(TAG_BUCKET) for r in observed.resources if r.kind in SERVING_KINDS), "")
    if live and live != spec.cloud.bucket:
        raise Refused(
            f"{spec.name}: its record and artifacts are in s3://{live}, but the recipe says s3://{spec.cloud.bucket}",
            hint=f"keep endpoint.bucket: {live}, or run `{spec.ref.command('down')}` first; "
            "`lmi weights copy` copies weights",
        )


def next_placement(
    spec: Spec, artifact: Artifact, plan: Plan, inventory: CloudInventory
) -> CloudInventory | None:
    """Marks the instance type of the plan as one to avoid; None if the recipe names no other."""
    desired = desired_state(spec, artifact)
    tried = next((a.config for a in plan.actions if isinstance(a, AwaitService)), "")
    failed = desired.endpoint_config(tried) or desired.chosen(inventory)
    avoid = (*inventory.avoid, failed.placement.instance)
    left = {placement.instance for placement in spec.cloud.placements} - {*avoid}
    return replace(inventory, avoid=avoid) if left else None


def keep_choices(inventory: CloudInventory, before: CloudInventory) -> CloudInventory:
    """With the prices and the avoided instance types of an earlier plan of the same command."""
    return replace(
        inventory, prices=before.prices, job_price=before.job_price, priced=before.priced, avoid=before.avoid
    )


def target_endpoint_config(endpoint: ObservedEndpoint) -> str:
    """The config that the endpoint will have once it has settled, if nothing fails."""
    return endpoint.config if endpoint.status == "RollingBack" else endpoint.pending or endpoint.config


def _is_owned_target(config: str, desired: DesiredState, observed: CloudObserved) -> bool:
    known = {g.server for g in observed.record.generations} if observed.record else set()
    if observed.component is not None and desired.component is not None:
        # Its adapters change alone, and one after the other.
        places = [g.serving.cloud.component for g in observed.record.known] if observed.record else []
        models = [place.alone for place in (desired.component, *places) if place is not None]
        return observed.component.settings.alone in models
    return desired.endpoint_config(config) is not None or config in known | resource_names(
        observed, "endpoint-config"
    )


def _intended(observed: CloudObserved, *kinds: type[Action]) -> bool:
    """Whether the record says that such an action was started, and no generation was settled since."""
    return observed.record is not None and any(observed.record.started(*kinds))


def _serve(
    spec: Spec, desired: DesiredState, observed: CloudObserved, inventory: CloudInventory
) -> Iterator[Action]:
    endpoint, chosen = observed.endpoint, desired.chosen(inventory)
    lost = endpoint is not None and (
        endpoint.status in _FOR_GOOD or is_endpoint_config_lost(endpoint, desired, observed)
    )
    created = endpoint is None or lost
    if not created:
        yield from set_expiry(spec, observed)
    stays = (
        endpoint is not None
        and not created
        and desired.endpoint_config(target_endpoint_config(endpoint)) is not None
    )
    if stays and endpoint is not None and endpoint.status != "UpdateRollbackFailed":
        if endpoint.status in SETTLING:
            yield from _settle(spec, target_endpoint_config(endpoint))
        if live := desired.endpoint_config(endpoint.config):
            yield from restore(desired, live, observed)
        yield from set_scaling(spec, observed, created=False)
        yield from restore_count(spec, observed, endpoint)
        yield from traffic_action(spec, observed, updated=False)
        yield from alarm_actions(spec, observed, created=False)
        yield from tagging(observed, tags_of(spec))
        return
    yield from create_settings(desired, chosen, observed)
    if created:
        yield from remove_dashboard(observed)
    if lost:
        yield DeleteEndpoint(endpoint=spec.name)
    if created:
        yield from schedule_new(spec, observed)
        yield CreateEndpoint(endpoint=spec.name, config=chosen.name, tags=spec.cloud.tags)
        yield from _settle(spec, chosen.name)
        yield from set_scaling(spec, observed, created=True)
        yield from traffic_action(spec, observed, updated=True)
        yield from alarm_actions(spec, observed, created=True)
        return
    yield from _update(spec, chosen, observed)


def _update(spec: Spec, chosen: DesiredEndpointConfig, observed: CloudObserved) -> Iterator[Action]:
    is_scaled, live = bool(scaled(observed)), live_types(observed)
    # SageMaker changes no instance type under a scalable target.
    moved = is_scaled and live != chosen.placement.types
    if moved:
        yield RemoveScaling(endpoint=spec.name)
    keep = is_scaled and spec.cloud.scaling is not None and not moved
    yield from end_foreign_scaling(observed)
    policy = update_policy(spec, observed)
    yield UpdateEndpoint(endpoint=spec.name, config=chosen.name, keep_count=keep, policy=policy)
    yield from _settle(spec, chosen.name, update=policy)
    if not (moved and spec.cloud.scaling is None):
        yield from set_scaling(spec, observed, created=moved)
    yield from traffic_action(spec, observed, updated=True)
    yield from alarm_actions(spec, observed, created=False)
    yield from tagging(observed, tags_of(spec))


def _settle(spec: Spec, config: str, *, update: UpdatePolicy | None = None) -> Iterator[Action]:
    yield AwaitService(endpoint=spec.name, config=config, timeout=wait_timeout(spec, update))
    yield probe_endpoint(spec)


def probe_endpoint(spec: Spec) -> ProbeEndpoint:
    second = spec.candidate
    return ProbeEndpoint(
        endpoint=spec.name,
        probe=spec.probe,
        asynchronous=spec.cloud.asynchronous is not None,
        shared=spec.ref.shared,
        candidate=second.spec.probe if second and not second.shadow else None,
        shadow=second is not None and second.shadow,
    )
