"""How a deployment is scaled, and a number of instances or copies that neither `lmi up` nor autoscaling set."""

from __future__ import annotations

from dataclasses import replace

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import Record
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.plan.instance_count import unrecorded_count


def kind_of(shared: str) -> ScalableKind:
    """`shared` is the endpoint that it shares; empty for one of its own."""
    return "component" if shared else "variant"


def recorded_scaling_of(
    endpoint: ObservedEndpoint | None, foreign: str, record: Record | None, cloud: Cloud
) -> tuple[Scaling | None, bool]:
    """What is registered, and whether it was read: only of a deployment that is lmi's and recorded as scaled."""
    current = record.current if record else None
    if endpoint is None or foreign or current is None or current.serving.cloud.scaling is None:
        return None, False
    return cloud.scalers.scaling(endpoint.name, kind_of(endpoint.shared)), True


def unrecorded_scaling(
    endpoint: ObservedEndpoint | None, foreign: str, record: Record | None, cloud: Cloud
) -> Scaling | None:
    """What is registered of a deployment that is recorded without autoscaling: one request if nothing is."""
    current = record.current if record else None
    if endpoint is None or foreign or current is None or current.serving.cloud.scaling is not None:
        return None
    return cloud.scalers.scaling(endpoint.name, kind_of(endpoint.shared))


def with_scaling(observed: CloudObserved, cloud: Cloud) -> CloudObserved:
    """And, by three requests more, how its number of instances or copies follows the load."""
    endpoint = observed.endpoint
    if endpoint is None or observed.not_owned_reason or observed.scaling_read:
        return observed
    scaling = cloud.scalers.scaling(observed.ref.name, kind_of(endpoint.shared))
    return replace(observed, scaling=scaling, scaling_read=True)


def count_by_hand(
    endpoint: ObservedEndpoint | None, foreign: str, record: Record | None, elsewhere: Scaling | None
) -> int | None:
    """A number that differs from the recorded one may be autoscaling's, set up by another tool: then it is not."""
    if endpoint is None or foreign or record is None or elsewhere is not None:
        return None
    return unrecorded_count(endpoint, record)
