"""Requests about CloudWatch's metric alarms: those of step scaling, and those that notify a topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.errors import NotFound


class MetricAlarms:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "cloudwatch")

    def put(self, alarm: Mapping[str, Any]) -> None:
        self._api("put_metric_alarm", f"alarm {alarm['AlarmName']}", **alarm)

    def starting_with(self, prefix: str, endpoint: str) -> list[dict[str, Any]]:
        return self._described(endpoint, AlarmNamePrefix=prefix)

    def named(self, names: Sequence[str], endpoint: str) -> list[dict[str, Any]]:
        """Those that exist; at most 100 names."""
        return self._described(endpoint, AlarmNames=list(names))

    def delete(self, names: Collection[str], endpoint: str) -> None:
        """At most 100; the others are deleted even if one does not exist (API reference, DeleteAlarms)."""
        if names:
            with suppress(NotFound):
                self._api("delete_alarms", f"alarms of {endpoint}", AlarmNames=list(names))

    def _described(self, endpoint: str, **which: Any) -> list[dict[str, Any]]:
        what = f"alarms of {endpoint}"
        return list(
            self._api.pages("describe_alarms", what, token="NextToken", items="MetricAlarms", **which)
        )
