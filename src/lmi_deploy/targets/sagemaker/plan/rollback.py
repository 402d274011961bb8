"""Target sagemaker: back to an earlier generation, as a plan."""

from __future__ import annotations

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.actions import (
    AwaitService,
    ProbeEndpoint,
    RemoveScaling,
    SetScaling,
    UpdateEndpoint,
)
from lmi_deploy.domain.sagemaker.resource_settings import TAG_SPEC, TAG_WEIGHTS
from lmi_deploy.errors import Refused
from lmi_deploy.planning.serving_changes import changes
from lmi_deploy.targets.sagemaker.desired_state import PROVISION
from lmi_deploy.targets.sagemaker.plan.rollback_candidates import chosen_generation
from lmi_deploy.targets.sagemaker.plan.tag_actions import tagging


def rollback(observed: CloudObserved, to: int | str = 0) -> tuple[Plan, Generation]:
    """One update to the config of an earlier generation, chosen by `chosen_generation`.

    NotFound if there is none; Refused if the endpoint cannot be updated now.
    """
    if observed.not_owned_reason:
        raise Refused(observed.not_owned_reason, hint="nothing was changed")
    previous = chosen_generation(observed, to)
    name, endpoint = observed.ref.name, observed.endpoint
    assert observed.record is not None
    has_started = endpoint is not None and previous.server in (endpoint.config, endpoint.pending)
    if endpoint is None or not (has_started or endpoint.status in ("InService", "UpdateRollbackFailed")):
        raise Refused(
            f"{name}: its endpoint is {endpoint.status if endpoint else 'deleted'} and cannot be updated now",
            hint="run `lmi status` for the reason, `lmi up` to repair it",
        )
    probe = previous.serving.probe
    current = observed.record.current
    was, becomes = current.serving.cloud.scaling if current else None, previous.serving.cloud.scaling
    # SageMaker changes no instance type under a scalable target.
    moved = current is not None and current.instance != previous.instance
    update = UpdateEndpoint(
        endpoint=name, config=previous.server, keep_count=bool(was and becomes and not moved)
    )
    actions: tuple[Action, ...] = (
        *((RemoveScaling(endpoint=name),) if was and (moved or not becomes) else ()),
        *(() if has_started else (update,)),
        AwaitService(
            endpoint=name,
            config=previous.server,
            timeout=previous.serving.place.wait_timeout or 2 * PROVISION,
        ),
        *((ProbeEndpoint(endpoint=name, probe=probe),) if probe else ()),
        *((SetScaling(endpoint=name, scaling=becomes),) if becomes and (moved or was != becomes) else ()),
        *tagging(observed, _tags(previous)),
    )
    return Plan(deployment=name, actions=actions, changes=changes(current, previous.serving)), previous


def _tags(previous: Generation) -> Pairs:
    weights = previous.serving.weights_name
    own = ((TAG_SPEC, previous.spec), *(((TAG_WEIGHTS, weights),) if weights else ()))
    return (*own, *previous.serving.tags)
