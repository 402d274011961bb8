"""The port Schedules: EventBridge Scheduler's universal target, which calls SageMaker's DeleteEndpoint.

A schedule has no tags: it is ours by its name and its target. Sources: EventBridge Scheduler's API reference,
CreateSchedule, UpdateSchedule (it replaces every field), and its user guide, "Using universal targets"; a one-time
schedule runs within a minute of its time, and ActionAfterCompletion DELETE removes it then.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.sagemaker.expiry import ObservedSchedule, parse_moment, schedule_name
from lmi_deploy.errors import Conflict, NotFound, Refused

_TARGET: Final = ":scheduler:::aws-sdk:sagemaker:deleteEndpoint"
_RETRIES: Final = {"MaximumEventAgeInSeconds": 86_400, "MaximumRetryAttempts": 185}
"""The service's own defaults, stated: an endpoint that is being updated cannot be deleted, and is tried for a day."""


class EventBridgeSchedules:
    def __init__(self, access: AwsConnection, *, account: str) -> None:
        self._api = Service(access, "scheduler")
        self._account = account

    def deletion(self, endpoint: str) -> ObservedSchedule | None:
        found = self._found(endpoint)
        if found is None or not _is_ours(found, endpoint):
            return None
        moment = str(found["ScheduleExpression"]).removeprefix("at(").removesuffix(")")
        return ObservedSchedule(
            name=schedule_name(endpoint),
            at=f"{moment}+00:00",
            role=str(found["Target"]["RoleArn"]),
            enabled=found.get("State") == "ENABLED",
        )

    def delete_at(self, endpoint: str, at: str, *, role: str) -> None:
        moment = parse_moment(at)
        if moment is None:
            raise ValueError(f"not a time: {at!r}")
        text = f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"
        found = self._found(endpoint)
        if found is None:
            # Refused if a first request, whose response was lost, has created it.
            with suppress(Conflict):
                return self._put("create_schedule", endpoint, text, role)
            found = self._found(endpoint)
        if found is not None and not _is_ours(found, endpoint):
            raise Refused(
                f"schedule {schedule_name(endpoint)}: it exists and does not delete {endpoint}",
                hint="it was not changed. Delete it in EventBridge Scheduler, or choose another name in the recipe",
            )
        self._put("update_schedule", endpoint, text, role)

    def remove(self, endpoint: str) -> None:
        if self.deletion(endpoint) is not None:
            with suppress(NotFound):
                self._about("delete_schedule", endpoint)

    def _put(self, call: str, endpoint: str, moment: str, role: str) -> None:
        self._about(
            call,
            endpoint,
            Description=f"lmi: deletes the SageMaker endpoint {endpoint} when it expires (lmi:expires-at)",
            ScheduleExpression=f"at({moment})",
            ScheduleExpressionTimezone="UTC",
            FlexibleTimeWindow={"Mode": "OFF"},
            State="ENABLED",
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": f"arn:{self._api.partition}{_TARGET}",
                "RoleArn": role,
                "Input": json.dumps({"EndpointName": endpoint}),
                "RetryPolicy": _RETRIES,
            },
        )

    def _found(self, endpoint: str) -> dict[str, Any] | None:
        try:
            return self._about("get_schedule", endpoint)
        except NotFound:
            return None

    def _about(self, call: str, endpoint: str, **given: Any) -> dict[str, Any]:
        name = schedule_name(endpoint)
        resource = (
            f"arn:{self._api.partition}:scheduler:{self._api.region}:{self._account}:schedule/default/{name}"
        )
        return self._api(call, f"schedule {name}", resource=resource, Name=name, **given)


def _is_ours(found: dict[str, Any], endpoint: str) -> bool:
    target = found.get("Target", {})
    return str(target.get("Arn", "")).endswith(_TARGET) and target.get("Input") == json.dumps(
        {"EndpointName": endpoint}
    )
