"""CloudWatch alarms: stored here, evaluated once a minute; one whose metric has no values keeps the state it was set
to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Store
from lmi_deploy.emulator.services import resource_tags
from lmi_deploy.emulator.wire.errors import ApiError

TABLE: Final = "alarms"


class TableAlarms:
    """`Alarms` over the table that the calls below keep."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def ringing(self, region: str, name: str) -> bool | None:
        row = self._store.table(TABLE, region).get(name)
        return None if row is None else row["state"] == "ALARM"


def put_metric_alarm(context: EmulatorContext, request: ApiRequest) -> None:
    name = request.params["AlarmName"]
    before = context.table(TABLE, request.region).get(name) or {}
    row = {
        "arn": context.arn("cloudwatch", request.region, f"alarm:{name}"),
        "tags": before.get("tags") or resource_tags.initial_tags(request),
        "tags_listed": True,
        "params": {key: value for key, value in request.params.items() if key != "Tags"},
        "state": before.get("state", "INSUFFICIENT_DATA"),
        "reason": before.get("reason", "Unchecked: Initial alarm creation"),
        "changed": context.clock.now(),
    }
    context.table(TABLE, request.region).put(name, row)


def describe_alarms(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    names, prefix = request.params.get("AlarmNames"), request.params.get("AlarmNamePrefix", "")
    state = request.params.get("StateValue")
    found = [
        _alarm(context, request, name, row)
        for name, row in sorted(context.table(TABLE, request.region).rows())
        if name.startswith(prefix)
        and (names is None or name in names)
        and (state is None or row["state"] == state)
    ]
    return {"MetricAlarms": found, "CompositeAlarms": []}


def _alarm(
    context: EmulatorContext, request: ApiRequest, name: str, row: Mapping[str, Any]
) -> Mapping[str, Any]:
    return {
        "ActionsEnabled": True,
        **row["params"],
        "AlarmArn": context.arn("cloudwatch", request.region, f"alarm:{name}"),
        "StateValue": row["state"],
        "StateReason": row["reason"],
        "StateUpdatedTimestamp": row["changed"],
    }


def delete_alarms(context: EmulatorContext, request: ApiRequest) -> None:
    for name in request.params["AlarmNames"]:
        context.table(TABLE, request.region).drop(name)


def set_alarm_state(context: EmulatorContext, request: ApiRequest) -> None:
    name = request.params["AlarmName"]
    row = context.table(TABLE, request.region).get(name)
    if row is None:
        raise ApiError("ResourceNotFoundException", f"Alarm {name} does not exist", status=404)
    row.update(
        state=request.params["StateValue"], reason=request.params["StateReason"], changed=context.clock.now()
    )
    context.table(TABLE, request.region).put(name, row)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "PutMetricAlarm": put_metric_alarm,
    "DescribeAlarms": describe_alarms,
    "DeleteAlarms": delete_alarms,
    "SetAlarmState": set_alarm_state,
    **resource_tags.operations(TABLE),
}
