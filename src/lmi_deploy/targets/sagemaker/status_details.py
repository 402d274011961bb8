"""What `lmi status` shows of an endpoint beside its state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.resource_names import component_names
from lmi_deploy.domain.sagemaker.resource_settings import CANDIDATE
from lmi_deploy.domain.status_details import StatusDetails
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.costs import other_scaling_words

_SPAN: Final = timedelta(hours=1)


def details(observed: CloudObserved, address: Callable[[DeploymentRef], str]) -> StatusDetails:
    current = observed.record.current if observed.record else None
    return StatusDetails(
        address=address(observed.ref) if current else "",
        endpoint=observed.endpoint,
        components=component_names(observed.resources),
        jobs=(*observed.jobs, *observed.compile_jobs),
        scaling=observed.scaling.words_of(observed.scalable_kind)
        if observed.scaling
        else other_scaling_words(observed),
        alarms=observed.alarms.words if observed.alarms else "",
        expires=observed.expires,
        expired=observed.expired,
        scheduled=observed.schedule is not None and observed.schedule.enabled,
    )


def recent_metrics(
    observed: CloudObserved, opened: Callable[[DeploymentRef], Cloud], *, candidate: bool
) -> RecentMetrics | None:
    """None without an endpoint, or while its first instances start; and of an endpoint that models share: each of them
    has its own. `candidate`: of its second variant.
    """
    endpoint = observed.endpoint
    if endpoint is None or endpoint.status == "Creating" or observed.sharing is not None:
        return None
    if candidate and endpoint.candidate is None:
        return None
    try:
        metrics, variant = opened(observed.ref).metrics, CANDIDATE if candidate else endpoint.variant
        return metrics.recent(observed.ref.name, _SPAN, variant, component=bool(endpoint.shared))
    except LmiError as error:  # the state is known without it
        return RecentMetrics(unavailable=error.message)
