"""The CloudWatch dashboard that `lmi dashboard` wrote: it goes with its endpoint, whose tag names it."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.sagemaker.actions import RemoveDashboard
from lmi_deploy.domain.sagemaker.resource_settings import SERVING_KINDS, TAG_DASHBOARD


def remove_dashboard(observed: CloudObserved) -> Iterator[RemoveDashboard]:
    """Before the endpoint is deleted: until then its tag shows that a dashboard may exist. Afterwards the record does,
    if the removal failed.
    """
    endpoint = next((one for one in observed.resources if one.kind in SERVING_KINDS), None)
    tagged = endpoint is not None and endpoint.tag(TAG_DASHBOARD)
    failed = observed.record is not None and any(
        intent.outcome is None for intent in observed.record.started(RemoveDashboard)
    )
    if (tagged or failed) and not observed.not_owned_reason:
        yield RemoveDashboard(endpoint=observed.ref.name)
