"""The alarms of an endpoint, with their tags."""

from __future__ import annotations

from collections.abc import Generator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.sagemaker.alarm_actions import SetAlarms
from lmi_deploy.domain.sagemaker.resource_settings import TAG, TAG_BUCKET
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.target import Outcome


def set_alarms(cloud: Cloud, action: SetAlarms, spec: Spec) -> Generator[Event, None, Outcome]:
    """Their tags are the user's, and those by which `lmi gc` finds what is left."""
    yield from ()
    own = {TAG: spec.name, TAG_BUCKET: spec.cloud.bucket}
    tags = tuple(sorted({**dict(spec.cloud.tags), **own}.items()))
    cloud.alarms.write(action.endpoint, action.alarms, tags)
    return counted(len(action.alarms.rules), "alarm")
