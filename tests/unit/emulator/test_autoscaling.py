"""The instance count of target tracking, and the state of an alarm."""

from __future__ import annotations

from typing import Any

import pytest

from lmi_deploy.emulator.scaling.autoscaling_loop import desired_count
from lmi_deploy.emulator.services.alarms import evaluate
from lmi_deploy.emulator.services.metrics import CloudWatchMetrics, Point

NAME = ("us-east-1", "mine", "errors", (("A", "a"),))
ALARM: dict[str, Any] = {
    "Namespace": "mine",
    "MetricName": "errors",
    "Dimensions": [{"Name": "A", "Value": "a"}],
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 3,
    "Threshold": 5.0,
    "ComparisonOperator": "GreaterThanThreshold",
}


@pytest.mark.parametrize(
    ("count", "value", "out", "expected"),
    [
        (1, 30.0, True, 6),
        (2, 5.1, True, 3),
        (4, 0.25, False, 1),
        (4, 4.4, False, 3),
        (3, None, True, 4),
        (3, None, False, 2),
    ],
)
def test_desired_count_meets_the_target(count: int, value: float | None, out: bool, expected: int) -> None:
    policy = {"params": {"TargetTrackingScalingPolicyConfiguration": {"TargetValue": 5.0}}}
    assert desired_count(count, value, policy, out=out) == expected


def measured(*values: float | None) -> CloudWatchMetrics:
    """One value per minute, from 0 on; None: none in that minute."""
    metrics = CloudWatchMetrics()
    for minute, value in enumerate(values):
        if value is not None:
            metrics.put(NAME, Point(60.0 * minute + 1, value, "None"))
    return metrics


@pytest.mark.parametrize(
    ("values", "more", "state"),
    [
        ((9.0, 9.0, 9.0), {}, "ALARM"),
        ((9.0, 5.0, 9.0), {}, "OK"),
        ((9.0, None, 9.0), {}, "OK"),
        ((9.0, None, 9.0), {"TreatMissingData": "breaching"}, "ALARM"),
        ((9.0, 1.0, 1.0), {"DatapointsToAlarm": 1}, "ALARM"),
        ((None, None, None), {}, None),
        ((None, None, None), {"TreatMissingData": "notBreaching"}, "OK"),
        ((None, None, None), {"TreatMissingData": "breaching"}, "ALARM"),
        ((1.0, 1.0, 1.0), {"ComparisonOperator": "LessThanThreshold"}, "ALARM"),
        ((5.0, 5.0, 5.0), {"ComparisonOperator": "GreaterThanOrEqualToThreshold"}, "ALARM"),
        ((9.0, 9.0, 9.0), {"ComparisonOperator": "GreaterThanUpperThreshold"}, None),
    ],
)
def test_alarm_state_follows_the_datapoints(
    values: tuple[float | None, ...], more: dict[str, Any], state: str | None
) -> None:
    evaluation = evaluate({**ALARM, **more}, measured(*values), "us-east-1", 185.0)
    assert (evaluation.state if evaluation is not None else None) == state


def test_unfinished_period_does_not_count() -> None:
    evaluation = evaluate(ALARM, measured(9.0, 9.0, 9.0, 1.0), "us-east-1", 239.0)
    assert evaluation is not None
    assert (evaluation.state, evaluation.value) == ("ALARM", 9.0)
