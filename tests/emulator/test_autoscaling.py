"""Autoscaling: measured invocations, alarms, and instance counts within their bounds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.emulator_process import REGION, Emulated

DIMENSION = "sagemaker:variant:DesiredInstanceCount"
METRIC = "SageMakerVariantInvocationsPerInstance"
PROVISIONED = 91
SCALED = 61
TIMEOUT = 60.0


def live(aws: Emulated, name: str, *, count: int = 1) -> dict[str, str]:
    """Creates an endpoint in service; returns the id of its variant as a scalable target."""
    aws.model(name, aws.upload(f"artifacts/{name}", {"serving.properties": "engine=Python\n"}))
    aws.endpoint_config(name, name, InitialInstanceCount=count)
    aws.endpoint(name)
    aws.advance(PROVISIONED)
    aws.settled(name)
    resource = f"endpoint/{name}/variant/AllTraffic"
    return {"ServiceNamespace": "sagemaker", "ResourceId": resource, "ScalableDimension": DIMENSION}


def track(aws: Emulated, target: dict[str, str], value: float, **more: Any) -> dict[str, Any]:
    predefined = {"PredefinedMetricType": METRIC}
    tracking = {"TargetValue": value, "PredefinedMetricSpecification": predefined, **more}
    put: dict[str, Any] = aws.client("application-autoscaling").put_scaling_policy(
        PolicyName="track",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=tracking,
        **target,
    )
    return put


def bounds(aws: Emulated, target: dict[str, str], least: int, most: int) -> None:
    aws.client("application-autoscaling").register_scalable_target(
        **target, MinCapacity=least, MaxCapacity=most
    )


def to_the_minute(aws: Emulated) -> None:
    aws.advance(60 - aws.get("/_clock")["now"] % 60 + 1)


def minutes(aws: Emulated, name: str, *, count: int, invocations: int) -> None:
    runtime = aws.client("sagemaker-runtime")
    for _ in range(count):
        for _ in range(invocations):
            runtime.invoke_endpoint(EndpointName=name, Body=b"x")
        aws.advance(60)


def counts(aws: Emulated, name: str) -> tuple[int, int]:
    variant = aws.described(name)["ProductionVariants"][0]
    return variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]


def until(aws: Emulated, name: str, desired: tuple[int, int]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while counts(aws, name) != desired:
        assert time.monotonic() < deadline, (counts(aws, name), aws.log.read_text())
        time.sleep(0.02)


def activities(aws: Emulated, target: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = aws.client("application-autoscaling").describe_scaling_activities(**target)[
        "ScalingActivities"
    ]
    return found


def alarm_names(aws: Emulated, prefix: str) -> list[str]:
    response = aws.client("cloudwatch").describe_alarms(AlarmNamePrefix=prefix)
    return [alarm["AlarmName"] for alarm in response["MetricAlarms"]]


def test_load_scales_out_and_idleness_scales_in(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "busy")
    bounds(idle_emulator, target, 1, 4)
    track(idle_emulator, target, 5.0)
    to_the_minute(idle_emulator)
    minutes(idle_emulator, "busy", count=3, invocations=30)
    until(idle_emulator, "busy", (1, 4))
    (started,) = activities(idle_emulator, target)
    assert (started["StatusCode"], started["Description"]) == (
        "InProgress",
        "Setting desired instance count to 4.",
    )
    idle_emulator.advance(SCALED)
    until(idle_emulator, "busy", (4, 4))
    (done,) = activities(idle_emulator, target)
    assert done["StatusCode"] == "Successful"
    assert done["Cause"].startswith(
        "monitor alarm TargetTracking-endpoint/busy/variant/AllTraffic-AlarmHigh-"
    )
    to_the_minute(idle_emulator)
    minutes(idle_emulator, "busy", count=20, invocations=1)
    until(idle_emulator, "busy", (1, 1))
    assert [one["Description"][-2] for one in activities(idle_emulator, target)] == ["1", "4"]


def test_no_traffic_measures_nothing_and_scales_nothing(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "idle", count=2)
    bounds(idle_emulator, target, 1, 4)
    track(idle_emulator, target, 5.0)
    idle_emulator.advance(7200)
    assert counts(idle_emulator, "idle") == (2, 2)
    states = idle_emulator.client("cloudwatch").describe_alarms(
        AlarmNamePrefix="TargetTracking-endpoint/idle/"
    )
    assert [alarm["StateValue"] for alarm in states["MetricAlarms"]] == ["INSUFFICIENT_DATA"] * 2


def test_cooldowns_delay_scaling(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "cool")
    bounds(idle_emulator, target, 1, 9)
    track(idle_emulator, target, 5.0, ScaleOutCooldown=600)
    to_the_minute(idle_emulator)
    minutes(idle_emulator, "cool", count=3, invocations=8)
    until(idle_emulator, "cool", (1, 2))
    idle_emulator.advance(SCALED)
    until(idle_emulator, "cool", (2, 2))
    minutes(idle_emulator, "cool", count=4, invocations=30)
    assert counts(idle_emulator, "cool") == (2, 2)
    minutes(idle_emulator, "cool", count=8, invocations=30)
    until(idle_emulator, "cool", (6, 6))


def test_alarm_state_set_by_hand_scales(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "forced")
    bounds(idle_emulator, target, 1, 2)
    high, low = (
        alarm["AlarmName"] for alarm in track(idle_emulator, target, 5.0, ScaleInCooldown=0)["Alarms"]
    )
    watch = idle_emulator.client("cloudwatch")
    watch.set_alarm_state(AlarmName=high, StateValue="ALARM", StateReason="test")
    idle_emulator.advance(61)
    until(idle_emulator, "forced", (1, 2))
    watch.set_alarm_state(AlarmName=high, StateValue="OK", StateReason="test")
    idle_emulator.advance(SCALED)
    until(idle_emulator, "forced", (2, 2))
    watch.set_alarm_state(AlarmName=low, StateValue="ALARM", StateReason="test")
    idle_emulator.advance(61)
    until(idle_emulator, "forced", (2, 1))


def test_minimum_capacity_applies_immediately(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "bound")
    bounds(idle_emulator, target, 2, 4)
    until(idle_emulator, "bound", (1, 2))
    assert activities(idle_emulator, target)[0]["Cause"] == "minimum capacity was set to 2"


def test_scaling_activity_fails_at_the_quota(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "limited")
    existing = {"ml.g5.xlarge": 1000}
    try:
        idle_emulator.post(f"/_quotas/{REGION}", {"ml.g5.xlarge": 1})
        bounds(idle_emulator, target, 3, 4)
        (failed,) = activities(idle_emulator, target)
        assert failed["StatusCode"] == "Failed"
        assert "ml.g5.xlarge for endpoint usage" in failed["StatusMessage"]
        assert counts(idle_emulator, "limited") == (1, 1)
    finally:
        idle_emulator.post(f"/_quotas/{REGION}", existing)


def test_policy_creates_and_deletes_its_alarms(idle_emulator: Emulated) -> None:
    api, target, prefix = (
        idle_emulator.client("application-autoscaling"),
        live(idle_emulator, "alarms"),
        "TargetTracking-endpoint/alarms/",
    )
    bounds(idle_emulator, target, 1, 2)
    items = [alarm["AlarmName"] for alarm in track(idle_emulator, target, 10.0)["Alarms"]]
    assert sorted(items) == alarm_names(idle_emulator, prefix)
    assert [name.split("-")[2] for name in sorted(items)] == ["AlarmHigh", "AlarmLow"]
    (policy,) = api.describe_scaling_policies(**target)["ScalingPolicies"]
    assert [alarm["AlarmName"] for alarm in policy["Alarms"]] == items
    track(idle_emulator, target, 20.0)
    found = idle_emulator.client("cloudwatch").describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"]
    assert [(alarm["AlarmName"], alarm["Threshold"]) for alarm in found] == list(
        zip(sorted(items), (20.0, 18.0), strict=True)
    )
    api.delete_scaling_policy(PolicyName="track", **target)
    assert alarm_names(idle_emulator, prefix) == []
    with pytest.raises(api.exceptions.ObjectNotFoundException, match="No scaling policy found"):
        api.delete_scaling_policy(PolicyName="track", **target)
    assert len(track(idle_emulator, target, 10.0, DisableScaleIn=True)["Alarms"]) == 1
    idle_emulator.client("sagemaker").delete_endpoint(EndpointName="alarms")
    assert alarm_names(idle_emulator, prefix) == []
    assert (
        api.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[target["ResourceId"]])[
            "ScalableTargets"
        ]
        == []
    )


def test_alarm_on_a_custom_metric_fires(idle_emulator: Emulated) -> None:
    watch = idle_emulator.client("cloudwatch")
    watch.put_metric_alarm(
        AlarmName="own",
        Namespace="mine",
        MetricName="errors",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=2,
        DatapointsToAlarm=1,
        Threshold=3.0,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="notBreaching",
    )
    to_the_minute(idle_emulator)
    watch.put_metric_data(Namespace="mine", MetricData=[{"MetricName": "errors", "Value": 4.0}])
    idle_emulator.advance(60)
    state(idle_emulator, "own", "ALARM")
    idle_emulator.advance(180)
    state(idle_emulator, "own", "OK")


def state(aws: Emulated, alarm: str, desired: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    watch = aws.client("cloudwatch")
    while (observed := watch.describe_alarms(AlarmNames=[alarm])["MetricAlarms"][0])["StateValue"] != desired:
        assert time.monotonic() < deadline, observed
        time.sleep(0.02)
