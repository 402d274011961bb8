"""The schedule that deletes an endpoint at its expiry: set and removed, with the tag that names its role."""

from __future__ import annotations

from collections.abc import Generator

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.permissions import SCHEDULER
from lmi_deploy.domain.sagemaker.actions import RemoveSchedule, ScheduleDeletion
from lmi_deploy.domain.sagemaker.resource_settings import TAG_EXPIRES, TAG_SCHEDULER
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from lmi_deploy.targets.sagemaker.perform.resource_creation import expiry_tags
from lmi_deploy.targets.target import Outcome

Steps = Generator[Event, None, Outcome]


def schedule_deletion(cloud: Cloud, clock: Clock, action: ScheduleDeletion) -> Steps:
    """The tag of a new endpoint is set when that is created."""
    observed = cloud.hosting.endpoint(action.endpoint)
    tags = dict(cloud.hosting.tags(observed.arn)) if observed and not action.ttl else {}
    at = tags.get(TAG_EXPIRES) or dict(expiry_tags(clock, action.ttl))[TAG_EXPIRES]
    yield from Propagation(cloud=cloud, clock=clock).until_assumable(
        action.role,
        lambda: cloud.schedules.delete_at(action.endpoint, at, role=action.role),
        key=action.key,
        service=SCHEDULER,
    )
    if observed is not None:
        cloud.hosting.tag(observed.arn, ((TAG_SCHEDULER, action.role),))
    return f"EventBridge Scheduler deletes it at {at}"


def remove_schedule(cloud: Cloud, action: RemoveSchedule) -> Steps:
    """The tag first: as long as the schedule exists, the next plan removes it."""
    yield from ()
    if observed := cloud.hosting.endpoint(action.endpoint):
        cloud.hosting.untag(observed.arn, (TAG_SCHEDULER,))
    cloud.schedules.remove(action.endpoint)
    return "removed"
