"""The steps by which an update shifts traffic."""

from __future__ import annotations

from typing import Any

import pytest

from lmi_deploy.emulator.hosting.traffic_shifting import TrafficStep, shifts, termination_wait


def routed(**routing: Any) -> dict[str, Any]:
    return {
        "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": {"WaitIntervalInSeconds": 60, **routing}}
    }


def percent(value: int) -> dict[str, Any]:
    return {"Type": "CAPACITY_PERCENT", "Value": value}


CASES = [
    (None, [TrafficStep(1.0, 0.0)]),
    (routed(Type="ALL_AT_ONCE"), [TrafficStep(1.0, 60.0)]),
    (routed(Type="CANARY", CanarySize=percent(25)), [TrafficStep(0.25, 60.0), TrafficStep(1.0, 60.0)]),
    (
        routed(Type="CANARY", CanarySize={"Type": "INSTANCE_COUNT", "Value": 1}),
        [TrafficStep(0.5, 60.0), TrafficStep(1.0, 60.0)],
    ),
    (routed(Type="LINEAR", LinearStepSize=percent(50)), [TrafficStep(0.5, 60.0), TrafficStep(1.0, 60.0)]),
    (
        {"RollingUpdatePolicy": {"MaximumBatchSize": percent(50), "WaitIntervalInSeconds": 30}},
        [TrafficStep(0.5, 30.0), TrafficStep(1.0, 30.0)],
    ),
]


@pytest.mark.parametrize(("guard", "steps"), CASES)
def test_traffic_steps_follow_the_deployment_config(guard: Any, steps: list[TrafficStep]) -> None:
    assert list(shifts(guard, 2)) == steps


def test_old_fleet_stays_for_the_termination_wait() -> None:
    assert termination_wait(None) == 0
    assert termination_wait({"BlueGreenUpdatePolicy": {"TerminationWaitInSeconds": 90}}) == 90
