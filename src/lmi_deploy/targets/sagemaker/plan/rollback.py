"""Target sagemaker: the rollback plan, and the generations that a deployment can go back to, the last one first."""

from __future__ import annotations

from dataclasses import replace

from lmi_deploy.domain.in_place_weights import object_changes, object_changes_text
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import Generation, Record
from lmi_deploy.domain.sagemaker.actions import AwaitService, UpdateEndpoint
from lmi_deploy.domain.sagemaker.component_actions import AwaitInferenceComponent, UpdateInferenceComponent
from lmi_deploy.domain.sagemaker.resource_settings import TAG_SPEC, ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import RemoveScaling, SetScaling
from lmi_deploy.domain.sagemaker.tags import weights_tags
from lmi_deploy.errors import NotFound, NotOwned, Refused
from lmi_deploy.planning.serving_changes import changes
from lmi_deploy.targets.sagemaker.desired_state import PROVISION
from lmi_deploy.targets.sagemaker.plan.adapter_components import (
    adapter_artifacts,
    recorded_adapter_tags,
    remove_adapters,
    serve_adapters,
)
from lmi_deploy.targets.sagemaker.plan.adoption import end_foreign_scaling
from lmi_deploy.targets.sagemaker.plan.resource_actions import existing, require_readable_record
from lmi_deploy.targets.sagemaker.plan.scaling_drift import scaled_copies
from lmi_deploy.targets.sagemaker.plan.tag_actions import tagging
from lmi_deploy.targets.sagemaker.plan.traffic import recorded_probe, recorded_traffic


def rollback(observed: CloudObserved, to: int | str = 0) -> tuple[Plan, Generation]:
    """One update to the config of an earlier generation, chosen by `chosen_generation`.

    NotFound if there is none; Refused if the endpoint cannot be updated now.
    """
    if observed.not_owned_reason:
        raise NotOwned(observed.not_owned_reason, hint="nothing was changed")
    require_readable_record(observed)
    previous = chosen_generation(observed, to)
    name, endpoint = observed.ref.name, observed.endpoint
    assert observed.record is not None
    has_started = endpoint is not None and previous.server in (endpoint.config, endpoint.pending)
    if endpoint is None or not (has_started or _can_be_updated(endpoint)):
        raise Refused(
            f"{name}: its endpoint is {endpoint.status if endpoint else 'deleted'} and cannot be updated now",
            hint="run `lmi status` for the reason, `lmi up` to repair it",
        )
    current = observed.record.current
    switch = _component_switch if previous.serving.cloud.component else _endpoint_switch
    actions = switch(observed, previous, has_started=has_started)
    previous = _with_present_alarms(previous, current)
    return Plan(deployment=name, actions=actions, changes=changes(current, previous.serving)), previous


def _with_present_alarms(previous: Generation, current: Generation | None) -> Generation:
    """The alarms watch the endpoint, whichever generation serves: a rollback is no time to remove them."""
    if current is None:
        return previous
    place = replace(previous.serving.cloud, alarms=current.serving.cloud.alarms)
    return replace(previous, serving=replace(previous.serving, place=place))


def _can_be_updated(endpoint: ObservedEndpoint) -> bool:
    """A component that is being updated shows its old settings: that update is waited for."""
    updating = bool(endpoint.shared) and endpoint.status == "Updating"
    return updating or endpoint.status in ("InService", "UpdateRollbackFailed")


def _endpoint_switch(
    observed: CloudObserved, previous: Generation, *, has_started: bool
) -> tuple[Action, ...]:
    name, current = observed.ref.name, observed.record.current if observed.record else None
    was, becomes = current.serving.cloud.scaling if current else None, previous.serving.cloud.scaling
    # SageMaker changes no instance type under a scalable target.
    moved = current is not None and current.types != previous.types
    update = UpdateEndpoint(
        endpoint=name, config=previous.server, keep_count=bool(was and becomes and not moved)
    )
    return (
        *((RemoveScaling(endpoint=name),) if was and (moved or not becomes) else ()),
        *(() if has_started else end_foreign_scaling(observed)),
        *(() if has_started else (update,)),
        AwaitService(
            endpoint=name,
            config=previous.server,
            timeout=previous.serving.place.wait_timeout or 2 * PROVISION,
        ),
        *recorded_probe(previous, name),
        *((SetScaling(endpoint=name, scaling=becomes),) if becomes and (moved or was != becomes) else ()),
        *recorded_traffic(previous, name),
        *tagging(observed, _tags(previous)),
    )


def _component_switch(
    observed: CloudObserved, previous: Generation, *, has_started: bool
) -> tuple[Action, ...]:
    name, settings = observed.ref.name, previous.serving.cloud.component
    assert settings is not None
    current = observed.record.current if observed.record else None
    was, becomes = current.serving.cloud.scaling if current else None, previous.serving.cloud.scaling
    timeout = previous.serving.place.wait_timeout or 2 * PROVISION
    model, live = settings.alone, observed.component
    serves = live is not None and live.settings.alone == model and live.status != "Updating"
    kept = becomes if was else None
    update = UpdateInferenceComponent(
        component=name,
        settings=model,
        least=kept.least if kept else 0,
        most=kept.highest if kept else 0,
    )
    return (
        *((RemoveScaling(endpoint=name, of="component"),) if was and not becomes else ()),
        *remove_adapters(settings, observed),
        *(() if has_started or serves else (update,)),
        AwaitInferenceComponent(
            component=name, config=model.name(name), timeout=timeout, copies=scaled_copies(previous)
        ),
        *serve_adapters(settings, recorded_adapter_tags(previous, observed), observed),
        *recorded_probe(previous, name, settings.place.endpoint),
        *(
            (SetScaling(endpoint=name, scaling=becomes, of="component"),)
            if becomes and was != becomes
            else ()
        ),
        *tagging(observed, _tags(previous)),
    )


def _tags(previous: Generation) -> Pairs:
    serving = previous.serving
    draft = next((each.weights_name for each in serving.additional if each.role == "draft"), "")
    weights = weights_tags(serving.weights_name, draft, serving.in_place)
    return ((TAG_SPEC, previous.spec), *weights.items(), *serving.tags)


def earlier(observed: CloudObserved) -> tuple[Generation, ...]:
    """The recorded generations that are not current, the last one first: number 1 is the previous one."""
    serving = observed.endpoint.config if observed.endpoint else ""
    known = observed.record.generations if observed.record else ()
    return tuple(generation for generation in reversed(known) if generation.server != serving)


def candidates(observed: CloudObserved) -> tuple[tuple[Generation, str], ...]:
    """The same, each with the reason if a rollback to it is impossible, or empty."""
    return tuple((each, lacks(each, observed)) for each in earlier(observed))


def lacks(generation: Generation, observed: CloudObserved) -> str:
    """Which of its resources is missing, so that a rollback to it is impossible; empty if none is."""
    is_component = generation.serving.cloud.component is not None
    if not is_component and generation.server not in existing(observed, "endpoint-config"):
        return f"its endpoint config {generation.server} was deleted, or is not lmi's"
    known = existing(observed, "model")
    for model in generation.serving.models:
        if model not in known:
            return f"its model {model} was deleted, or is not lmi's"
    if lost := sorted(adapter_artifacts(generation.serving.cloud.component) - {*observed.artifacts}):
        return f"the artifact {lost[0]} of an adapter was deleted"
    return _replaced_objects(generation, observed.record)


def _replaced_objects(generation: Generation, record: Record | None) -> str:
    """The address of weights in place says nothing about the objects under it: it would load the present ones."""
    weights = generation.serving.in_place
    for later in record.known if record and weights else ():
        other = later.serving.in_place
        if weights and other and other.address == weights.address and other.commit != weights.commit:
            changes = object_changes_text(object_changes(weights, other))
            return f"its weights in place changed since: {changes}; restore them, then run `lmi up`"
    return ""


def chosen_generation(observed: CloudObserved, to: int | str = 0) -> Generation:
    """The one with this number or this endpoint config. 0: an interrupted rollback, else the first possible one.

    NotFound if the record contains no such generation, or a part of it is deleted.
    """
    if not to:
        return _default(observed)
    past, name, status = earlier(observed), observed.ref.name, observed.ref.command("status")
    numbered = past[to - 1 : to] if isinstance(to, int) else [each for each in past if each.server == to]
    if not numbered:
        # An interrupted rollback that already switched the endpoint continues with the wait and the probe.
        known = observed.record.generations if observed.record else ()
        numbered = [each for each in known if each.server == to]
    if not numbered:
        count = len(past)
        kept = f"{counted(count, 'earlier generation')} kept"
        hint = f"choose a number from `{status}`, or run `lmi up` with an earlier recipe"
        raise NotFound(f"{name}: no generation {to}: {kept}", hint=hint)
    if why := lacks(numbered[0], observed):
        hint = f"run `lmi up` with its recipe, or choose another one from `{status}`"
        raise NotFound(f"{name}: cannot roll back to generation {to}: {why}", hint=hint)
    return numbered[0]


def _default(observed: CloudObserved) -> Generation:
    record = observed.record
    known = {g.server for g in record.generations} if record else set()
    if record and record.coming and record.coming.server in known and not lacks(record.coming, observed):
        return record.coming  # an earlier rollback was interrupted
    possible = [generation for generation in earlier(observed) if not lacks(generation, observed)]
    if not observed.exists:
        raise NotFound(
            f"{observed.ref.name}: no such deployment in {observed.ref.place}",
            hint="`lmi ls` lists the deployments",
        )
    if not possible:
        raise NotFound(
            f"{observed.ref.name}: no earlier generation to roll back to",
            hint="run `lmi up` with an earlier recipe; the record keeps the last five generations",
        )
    return possible[0]
