"""Target sagemaker: the remaining actions of an `up` that stopped before the deployment responded, as a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, get_args

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.dataclass_json import load
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.record import Generation, Record
from lmi_deploy.domain.sagemaker.actions import AwaitService, CloudAction
from lmi_deploy.domain.sagemaker.component_actions import AwaitInferenceComponent
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import SetTraffic
from lmi_deploy.targets.sagemaker.desired_state import PROVISION
from lmi_deploy.targets.sagemaker.plan.adapter_components import (
    recorded_adapter_tags,
    remove_adapters,
    serve_adapters,
)
from lmi_deploy.targets.sagemaker.plan.deploy import target_endpoint_config as pending_endpoint_config
from lmi_deploy.targets.sagemaker.plan.scaling_drift import scaled_copies
from lmi_deploy.targets.sagemaker.plan.traffic import recorded_probe, recorded_traffic
from lmi_deploy.targets.sagemaker.status import update_submitted

_CONFIGURING: Final[dict[str, type[CloudAction]]] = {
    kind.kind: kind for kind in get_args(CloudAction) if kind.phase is Phase.CONFIGURE
}


def wait_plan(observed: CloudObserved, *, timeout: int | None) -> tuple[Plan, Generation | None]:
    """The actions that the record says were started and did not finish, beginning with the wait for service."""
    record, endpoint, name = observed.record, observed.endpoint, observed.ref.name
    pending = record.coming if record else None
    if endpoint is None or observed.not_owned_reason or not _is_in_progress(record, endpoint):
        return Plan(deployment=name, actions=()), None
    config = pending.server if pending else pending_endpoint_config(endpoint)
    wait_timeout = timeout or (pending.serving.place.wait_timeout if pending else 0) or 2 * PROVISION
    actions: list[Action] = [*_settle(observed, pending, config, wait_timeout)]
    if pending:
        actions += recorded_probe(pending, name, endpoint.shared)
    actions += (left := tuple(_interrupted_actions(record)))
    if pending and not any(isinstance(action, SetTraffic) for action in left):
        # Without it the candidate would be in service, and get no request.
        actions += recorded_traffic(pending, name)
    return Plan(deployment=name, actions=tuple(actions)), pending


def _settle(
    observed: CloudObserved, pending: Generation | None, config: str, timeout: int
) -> Iterator[Action]:
    """A model on a shared endpoint, then its adapters: SageMaker adds them to one that is in service."""
    name, component = observed.ref.name, observed.component
    if component is None:
        yield AwaitService(endpoint=name, config=config, timeout=timeout)
        return
    settings = (pending and pending.serving.cloud.component) or component.settings
    if pending:
        yield from remove_adapters(settings, observed)
    yield AwaitInferenceComponent(
        component=name,
        config=settings.alone.name(name),
        timeout=timeout,
        copies=scaled_copies(pending) if pending else settings.place.copies,
    )
    if pending:
        yield from serve_adapters(settings, recorded_adapter_tags(pending, observed), observed)


def _is_in_progress(record: Record | None, endpoint: ObservedEndpoint) -> bool:
    """Whether the endpoint is changing, or an earlier `up` started a change and did not see it complete."""
    if endpoint.status in SETTLING:
        return True
    pending = record.coming if record else None
    if record is None or pending is None:
        return False
    return endpoint.config == pending.server or update_submitted(record, pending.server)


def _interrupted_actions(record: Record | None) -> Iterator[Action]:
    """The small things at the end of an `up`, as its intents name them."""
    for intent in record.started(*_CONFIGURING.values()) if record else ():
        if intent.outcome is None:
            yield load(_CONFIGURING[intent.action], intent.names)
