"""The schedule that deletes an endpoint at its expiry."""

from __future__ import annotations

from lmi_deploy.domain.record import Record
from lmi_deploy.domain.sagemaker.actions import RemoveSchedule, ScheduleDeletion
from lmi_deploy.domain.sagemaker.expiry import ObservedSchedule
from lmi_deploy.domain.sagemaker.resource_settings import SERVING_KINDS, TAG_SCHEDULER, Resource
from lmi_deploy.ports.cloud import Cloud


def deletion_schedule(
    name: str, resources: tuple[Resource, ...], record: Record | None, cloud: Cloud
) -> ObservedSchedule | None:
    return cloud.schedules.deletion(name) if _may_be_scheduled(resources, record) else None


def _may_be_scheduled(resources: tuple[Resource, ...], record: Record | None) -> bool:
    """Whether a schedule may exist that deletes the endpoint: else no request asks for it."""
    if any(resource.kind in SERVING_KINDS and resource.tag(TAG_SCHEDULER) for resource in resources):
        return True
    current = record.current if record else None
    return record is not None and (
        any(record.started(ScheduleDeletion, RemoveSchedule))
        or bool(current and current.serving.cloud.scheduler_role)
    )
