"""The actions on the CloudWatch alarms of an endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.action import ActionBase, Phase
from lmi_deploy.domain.sagemaker.alarm_settings import EndpointAlarms


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAlarms(ActionBase):
    """Create or change its alarms, and delete those that the recipe no longer has."""

    phase = Phase.CONFIGURE
    endpoint: str
    alarms: EndpointAlarms

    @property
    def title(self) -> str:
        kinds = ", ".join(rule.kind for rule in self.alarms.rules)
        return f"set the alarms of {self.endpoint} ({kinds}), which notify {self.alarms.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAlarms(ActionBase):
    """Before the endpoint: until then no one is notified of its end."""

    phase = Phase.CONFIGURE
    can_wait = True
    endpoint: str

    @property
    def title(self) -> str:
        return f"remove the alarms of {self.endpoint}"


AlarmAction = SetAlarms | RemoveAlarms
