"""Step scaling as requests, and back: a policy, and the alarm that calls it, which lmi creates itself.

Sources: Application Auto Scaling API reference, StepScalingPolicyConfiguration and StepAdjustment (the bounds are
distances from the alarm's threshold); CloudWatch API reference, PutMetricAlarm. Read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lmi_deploy.domain.recipe_scaling_keys import COOLDOWN, StepDirection, StepScaling, StepUnit

STEP_POLICY: Final = "lmi-step-"
_ADJUSTMENTS: Final[Mapping[str, StepUnit]] = {
    "ChangeInCapacity": "instances",
    "PercentChangeInCapacity": "percent",
    "ExactCapacity": "exact",
}
_COMPARISONS: Final[Mapping[str, StepDirection]] = {
    "GreaterThanOrEqualToThreshold": "above",
    "LessThanOrEqualToThreshold": "below",
}


def step_policy_request(step: StepScaling) -> dict[str, Any]:
    adjustments = [(float(distance), int(change)) for distance, change in step.adjustments]
    names = ("MetricIntervalLowerBound", "MetricIntervalUpperBound")
    near, far = names if step.when == "above" else names[::-1]
    sign = 1 if step.when == "above" else -1
    bounds = [sign * distance + 0.0 for distance, _ in adjustments]  # the sum is never -0.0
    steps = []
    for index, (_, change) in enumerate(adjustments):
        one: dict[str, Any] = {near: bounds[index], "ScalingAdjustment": change}
        if index + 1 < len(adjustments):
            one[far] = bounds[index + 1]
        steps.append(one)
    return {
        "AdjustmentType": next(name for name, unit in _ADJUSTMENTS.items() if unit == step.unit),
        "StepAdjustments": steps,
        "Cooldown": step.cooldown,
        "MetricAggregationType": "Average",
    }


def step_alarm_request(name: str, step: StepScaling, policy_arn: str) -> dict[str, Any]:
    return {
        "AlarmName": step_alarm_name(name, step.name),
        "AlarmDescription": f"Made by lmi: step scaling {step.name} of {name}",
        "AlarmActions": [policy_arn],
        "Namespace": step.namespace,
        "MetricName": step.metric,
        "Statistic": step.statistic,
        "Dimensions": [{"Name": key, "Value": value} for key, value in step.dimensions],
        "Period": 60,
        "EvaluationPeriods": step.minutes,
        "DatapointsToAlarm": step.minutes,
        "Threshold": step.threshold,
        "ComparisonOperator": next(name for name, when in _COMPARISONS.items() if when == step.when),
        "TreatMissingData": "missing",
    }


def step_alarm_name(name: str, step: str) -> str:
    return f"{step_alarms(name)}{step}"


def step_alarms(name: str) -> str:
    """The beginning of their names."""
    return f"{name}-scale-"


def step_from(policy: Mapping[str, Any], alarms: Sequence[Mapping[str, Any]]) -> StepScaling | None:
    """With its alarm: without one it never acts, so that it counts as absent."""
    found = policy.get("StepScalingPolicyConfiguration", {})
    alarm = next((each for each in alarms if policy["PolicyARN"] in each.get("AlarmActions", ())), None)
    when = _COMPARISONS.get(alarm["ComparisonOperator"]) if alarm else None
    if alarm is None or when is None or "MetricName" not in alarm or "Statistic" not in alarm:
        return None
    near = "MetricIntervalLowerBound" if when == "above" else "MetricIntervalUpperBound"
    unit = _ADJUSTMENTS.get(found.get("AdjustmentType", ""), "instances")
    signed = "" if unit == "exact" else "+"
    steps = sorted((abs(each.get(near, 0.0)), each["ScalingAdjustment"]) for each in found["StepAdjustments"])
    return StepScaling(
        name=policy["PolicyName"].removeprefix(STEP_POLICY),
        namespace=alarm["Namespace"],
        metric=alarm["MetricName"],
        threshold=float(alarm["Threshold"]),
        adjustments=tuple((f"{distance:g}", f"{change:{signed}d}") for distance, change in steps),
        when=when,
        unit=unit,
        statistic=alarm["Statistic"],
        dimensions=tuple(sorted((each["Name"], each["Value"]) for each in alarm.get("Dimensions", ()))),
        minutes=int(alarm["EvaluationPeriods"]),
        cooldown=int(found.get("Cooldown", COOLDOWN)),
    )
