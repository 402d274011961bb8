"""CloudWatch's alarms of an endpoint, which notify an SNS topic."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.alarm_settings import EndpointAlarms, ObservedAlarms


class AlarmsApi(Protocol):
    """Alarms of these names that lmi did not create are left alone."""

    def read(self, endpoint: str) -> ObservedAlarms | None:
        """None: it has no alarm."""

    def write(self, endpoint: str, alarms: EndpointAlarms, tags: Pairs) -> None:
        """Create or replace each, and delete the others of this endpoint. Refused if one of these names exists and is
        not ours. Tags are those of an alarm that is created.
        """

    def remove(self, endpoint: str) -> None:
        """Absent is no error."""
