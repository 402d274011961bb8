"""How a deployment is scaled, and how many instances or copies it has: by the recipe."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.sagemaker.component_actions import SetCopyCount
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import RemoveScaling, SetInstanceCount, SetScaling
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.targets.sagemaker.desired_state import wait_timeout
from lmi_deploy.targets.sagemaker.plan.scaling_drift import is_scaling_changed, recorded_scaling


def set_scaling(spec: Spec, observed: CloudObserved, *, created: bool) -> Iterator[Action]:
    """Autoscaling follows the recipe: what is registered is compared with it, and what the last `lmi up` set."""
    scaling, kind = spec.cloud.scaling, spec.cloud.scalable_kind
    doubt = created or _intended(observed)
    if scaling is not None and (doubt or is_scaling_changed(observed, scaling)):
        yield SetScaling(endpoint=spec.name, scaling=scaling, of=kind)
    elif scaling is None and (scaled(observed) or (doubt and not created)):
        yield RemoveScaling(endpoint=spec.name, of=kind)


def restore_count(spec: Spec, observed: CloudObserved, endpoint: ObservedEndpoint) -> Iterator[Action]:
    """Without autoscaling the number of instances or copies follows the recipe: `lmi scale`, another tool, or the
    autoscaling that this plan removes may have changed it.
    """
    component, live = spec.cloud.component, observed.count_by_hand
    if scaled(observed) and not endpoint.pending:
        live = endpoint.desired_count
    if spec.cloud.scaling is not None or live is None:
        return
    if component is not None and live != component.copies:
        yield SetCopyCount(component=spec.name, copies=component.copies, timeout=wait_timeout(spec))
    elif component is None and live != spec.cloud.count:
        yield SetInstanceCount(endpoint=spec.name, count=spec.cloud.count, timeout=wait_timeout(spec))


def scaled(observed: CloudObserved) -> Scaling | None:
    """How the deployment is scaled."""
    return observed.scaling or recorded_scaling(observed)


def _intended(observed: CloudObserved) -> bool:
    """Whether the record says that a change was started, and no generation was settled since."""
    return observed.record is not None and any(observed.record.started(SetScaling, RemoveScaling))
