"""The state of an alarm at a moment, from its metric."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.emulator.services.metrics import Metrics, dimensions_of, statistic

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


def evaluate(alarm: Mapping[str, Any], metrics: Metrics, region: str, at: float) -> AlarmEvaluation | None:
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


def _values(alarm: Mapping[str, Any], metrics: Metrics, region: str, at: float) -> list[float]:
    """Of the periods that are over, those that have some."""
    period = int(alarm["Period"])
    end = at - at % period
    name = (region, alarm["Namespace"], alarm["MetricName"], dimensions_of(alarm))
    found = metrics.periods(name, end - period * alarm["EvaluationPeriods"], end, period)
    required = alarm.get("Statistic") or alarm.get("ExtendedStatistic", "Average")
    return [statistic(required, points) for points in found.values()]
