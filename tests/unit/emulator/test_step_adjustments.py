"""The number of instances that a step asks for."""

from __future__ import annotations

from typing import Any

import pytest

from lmi_deploy.domain.recipe_scaling_keys import StepDirection, StepScaling, StepUnit
from lmi_deploy.domain.sagemaker.step_scaling import step_policy_request
from lmi_deploy.emulator.scaling.step_adjustments import check_steps, stepped_count


def policy(kind: str, *changes: int, **more: Any) -> dict[str, Any]:
    steps = [
        {"MetricIntervalLowerBound": 10.0 * number, "ScalingAdjustment": change}
        | ({"MetricIntervalUpperBound": 10.0 * (number + 1)} if number + 1 < len(changes) else {})
        for number, change in enumerate(changes)
    ]
    return {"AdjustmentType": kind, "StepAdjustments": steps, **more}


@pytest.mark.parametrize(
    ("kind", "changes", "more", "beyond", "expected"),
    [
        ("ChangeInCapacity", (1, 3), {}, 0.0, 5),
        ("ChangeInCapacity", (1, 3), {}, 9.9, 5),
        ("ChangeInCapacity", (1, 3), {}, 10.0, 7),
        ("ChangeInCapacity", (1, 3), {}, -0.1, None),
        ("ChangeInCapacity", (-9,), {}, 1.0, 0),
        ("ExactCapacity", (2, 8), {}, 25.0, 8),
        ("PercentChangeInCapacity", (10,), {}, 0.0, 5),
        ("PercentChangeInCapacity", (60,), {}, 0.0, 6),
        ("PercentChangeInCapacity", (-10,), {}, 0.0, 3),
        ("PercentChangeInCapacity", (25,), {"MinAdjustmentMagnitude": 2}, 0.0, 6),
    ],
)
def test_count_follows_the_step(
    kind: str, changes: tuple[int, ...], more: dict[str, Any], beyond: float, expected: int | None
) -> None:
    assert stepped_count(4, beyond, policy(kind, *changes, **more)) == expected


@pytest.mark.parametrize(
    ("when", "unit", "value", "expected"),
    [
        ("above", "instances", 20.0, 5),
        ("above", "instances", 75.0, 7),
        ("above", "exact", 75.0, 3),
        ("above", "percent", 20.0, 5),
        ("below", "instances", 20.0, 5),
        ("below", "instances", 10.0, 5),
        ("below", "instances", -30.0, 7),
    ],
)
def test_steps_of_a_recipe_mean_the_same_to_the_service(
    when: StepDirection, unit: StepUnit, value: float, expected: int
) -> None:
    step = StepScaling(
        name="a",
        namespace="n",
        metric="m",
        threshold=20.0,
        adjustments=(("0", "+1"), ("50", "+3")),
        when=when,
        unit=unit,
    )
    request = step_policy_request(step)
    check_steps(request)
    assert stepped_count(4, value - step.threshold, request) == expected
