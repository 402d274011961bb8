"""CloudWatch alarms: kept here, judged once a minute; one whose metric has no values keeps the state it was set to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Ask, Operation, World
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


def put_metric_alarm(world: World, ask: Ask) -> None:
    name = ask.params["AlarmName"]
    before = world.table(TABLE, ask.region).get(name) or {}
    row = {
        "arn": world.arn("cloudwatch", ask.region, f"alarm:{name}"),
        "tags": before.get("tags") or resource_tags.given(ask),
        "tags_listed": True,
        "params": {key: value for key, value in ask.params.items() if key != "Tags"},
        "state": before.get("state", "INSUFFICIENT_DATA"),
        "reason": before.get("reason", "Unchecked: Initial alarm creation"),
        "changed": world.clock.now(),
    }
    world.table(TABLE, ask.region).put(name, row)


def describe_alarms(world: World, ask: Ask) -> Mapping[str, Any]:
    names, prefix = ask.params.get("AlarmNames"), ask.params.get("AlarmNamePrefix", "")
    state = ask.params.get("StateValue")
    found = [
        _alarm(world, ask, name, row)
        for name, row in sorted(world.table(TABLE, ask.region).rows())
        if name.startswith(prefix)
        and (names is None or name in names)
        and (state is None or row["state"] == state)
    ]
    return {"MetricAlarms": found, "CompositeAlarms": []}


def _alarm(world: World, ask: Ask, name: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "ActionsEnabled": True,
        **row["params"],
        "AlarmArn": world.arn("cloudwatch", ask.region, f"alarm:{name}"),
        "StateValue": row["state"],
        "StateReason": row["reason"],
        "StateUpdatedTimestamp": row["changed"],
    }


def delete_alarms(world: World, ask: Ask) -> None:
    for name in ask.params["AlarmNames"]:
        world.table(TABLE, ask.region).drop(name)


def set_alarm_state(world: World, ask: Ask) -> None:
    name = ask.params["AlarmName"]
    row = world.table(TABLE, ask.region).get(name)
    if row is None:
        raise ApiError("ResourceNotFoundException", f"Alarm {name} does not exist", status=404)
    row.update(state=ask.params["StateValue"], reason=ask.params["StateReason"], changed=world.clock.now())
    world.table(TABLE, ask.region).put(name, row)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "PutMetricAlarm": put_metric_alarm,
    "DescribeAlarms": describe_alarms,
    "DeleteAlarms": delete_alarms,
    "SetAlarmState": set_alarm_state,
    **resource_tags.operations(TABLE),
}
