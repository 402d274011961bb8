"""CloudWatch alarms: stored here, evaluated once a minute. One whose metric has no values keeps its state.

Source: CloudWatch's API reference, PutMetricAlarm: the limits of Period and EvaluationPeriods, one kind of statistic,
and tags, which are ignored for an alarm that exists.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.services import tag_operations
from lmi_deploy.emulator.services.alarm_notifications import notify
from lmi_deploy.emulator.services.metrics import CloudWatchMetrics, dimensions_of, statistic
from lmi_deploy.emulator.wire.errors import ApiError

TABLE: Final = "alarms"
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_WEEK: Final = 604_800


def is_ringing(context: EmulatorContext, region: str, name: str) -> bool | None:
    """Whether the alarm is in ALARM; None when there is no alarm of that name."""
    row = context.table(TABLE, region).get(name)
    return None if row is None else row["state"] == "ALARM"


def put_metric_alarm(context: EmulatorContext, request: ApiRequest) -> None:
    name = request.params["AlarmName"]
    before = context.table(TABLE, request.region).get(name) or {}
    _require_valid(request.params)
    row = {
        "arn": context.arn("cloudwatch", request.region, f"alarm:{name}"),
        "tags": before["tags"] if before else tag_operations.initial_tags(request),
        "tags_listed": True,
        "params": {key: value for key, value in request.params.items() if key != "Tags"},
        "state": before.get("state", "INSUFFICIENT_DATA"),
        "reason": before.get("reason", "Unchecked: Initial alarm creation"),
        "changed": context.clock.now(),
    }
    context.table(TABLE, request.region).put(name, row)


def _require_valid(params: Mapping[str, Any]) -> None:
    if "MetricName" not in params:
        return
    period, periods = params.get("Period", 0), params["EvaluationPeriods"]
    if period not in (10, 20, 30) and (period < _MINUTE or period % _MINUTE):
        raise _invalid("InvalidParameterValue", "Period must be 10, 20, 30 or a multiple of 60")
    if ("Statistic" in params) == ("ExtendedStatistic" in params):
        raise _invalid("InvalidParameterCombination", "Specify either Statistic or ExtendedStatistic")
    if params.get("DatapointsToAlarm", 1) > periods:
        raise _invalid("InvalidParameterValue", "DatapointsToAlarm must be at most EvaluationPeriods")
    if period * periods > (_WEEK if period >= _HOUR else _DAY):
        raise _invalid(
            "InvalidParameterCombination", "Metrics cannot be checked across more than a day or a week"
        )


def _invalid(code: str, words: str) -> ApiError:
    return ApiError(code, f"The alarm is not valid: {words}.", status=400)


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


def _enabling(*, enabled: bool) -> Operation:
    def change(context: EmulatorContext, request: ApiRequest) -> None:
        table = context.table(TABLE, request.region)
        for name in request.params["AlarmNames"]:
            if row := table.get(name):
                table.put(name, {**row, "params": {**row["params"], "ActionsEnabled": enabled}})

    return change


def set_alarm_state(context: EmulatorContext, request: ApiRequest) -> None:
    name = request.params["AlarmName"]
    row = context.table(TABLE, request.region).get(name)
    if row is None:
        raise ApiError("ResourceNotFoundException", f"Alarm {name} does not exist", status=404)
    before = row["state"]
    row.update(
        state=request.params["StateValue"], reason=request.params["StateReason"], changed=context.clock.now()
    )
    context.table(TABLE, request.region).put(name, row)
    notify(context, request.region, name, row, before)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "PutMetricAlarm": put_metric_alarm,
    "DescribeAlarms": describe_alarms,
    "DeleteAlarms": delete_alarms,
    "SetAlarmState": set_alarm_state,
    "DisableAlarmActions": _enabling(enabled=False),
    "EnableAlarmActions": _enabling(enabled=True),
    **tag_operations.operations(TABLE),
}


_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}


@dataclass(frozen=True, slots=True)
class AlarmEvaluation:
    """`value` is the latest one."""

    state: str
    reason: str
    value: float | None = None


def evaluate(
    alarm: Mapping[str, Any], metrics: CloudWatchMetrics, region: str, at: float
) -> AlarmEvaluation | None:
    """None if the alarm keeps its state: there is no data, or its kind is not evaluated."""
    compare = _COMPARISONS.get(alarm["ComparisonOperator"])
    if compare is None or "MetricName" not in alarm or "Period" not in alarm:
        return None
    values = _values(alarm, metrics, region, at)
    threshold, required = float(alarm["Threshold"]), alarm["EvaluationPeriods"]
    breaching = sum(compare(value, threshold) for value in values)
    lacking = alarm.get("TreatMissingData", "missing")
    if lacking == "breaching":
        breaching += required - len(values)
    if not values and lacking in ("missing", "ignore"):
        return None
    state = "ALARM" if breaching >= alarm.get("DatapointsToAlarm", required) else "OK"
    reason = (
        f"Threshold Crossed: {breaching} out of the last {required} datapoints were "
        f"{alarm['ComparisonOperator']} ({threshold})."
    )
    return AlarmEvaluation(state, reason, values[-1] if values else None)


def _values(alarm: Mapping[str, Any], metrics: CloudWatchMetrics, region: str, at: float) -> list[float]:
    """Of the periods that are over, those that have some."""
    period = int(alarm["Period"])
    end = at - at % period
    name = (region, alarm["Namespace"], alarm["MetricName"], dimensions_of(alarm))
    found = metrics.periods(name, end - period * alarm["EvaluationPeriods"], end, period)
    required = alarm.get("Statistic") or alarm.get("ExtendedStatistic", "Average")
    return [statistic(required, points) for points in found.values()]
