"""Target tracking on concurrent requests and on several metrics, scheduled actions, limits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.emulator.test_autoscaling import (
    METRIC,
    SCALED,
    activities,
    alarm_names,
    bounds,
    counts,
    live,
    to_the_minute,
    track,
    until,
)
from tests.support.emulator_process import Emulated

CONCURRENCY = "SageMakerVariantConcurrentRequestsPerModelHighResolution"


def put_policy(aws: Emulated, target: dict[str, str], name: str, tracking: dict[str, Any]) -> dict[str, Any]:
    put: dict[str, Any] = aws.client("application-autoscaling").put_scaling_policy(
        PolicyName=name,
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=tracking,
        **target,
    )
    return put


def schedule(aws: Emulated, target: dict[str, str], name: str, expression: str, **more: Any) -> None:
    aws.client("application-autoscaling").put_scheduled_action(
        ScheduledActionName=name, Schedule=expression, **target, **more
    )


def registered(aws: Emulated, target: dict[str, str]) -> tuple[int, int]:
    found = aws.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="sagemaker", ResourceIds=[target["ResourceId"]]
    )
    return found["ScalableTargets"][0]["MinCapacity"], found["ScalableTargets"][0]["MaxCapacity"]


def minutes_ahead(aws: Emulated, minutes: int) -> datetime:
    return datetime.fromtimestamp(aws.get("/_clock")["now"] // 60 * 60 + 60 * minutes, UTC)


def test_concurrent_requests_scale_out_within_a_minute(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "crowded")
    bounds(idle_emulator, target, 1, 3)
    predefined = {"PredefinedMetricType": CONCURRENCY}
    tracking = {"TargetValue": 0.5, "PredefinedMetricSpecification": predefined}
    put_policy(idle_emulator, target, "crowd", tracking)
    watch = idle_emulator.client("cloudwatch")
    prefix = "TargetTracking-endpoint/crowded/"
    high, low = watch.describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"]
    assert (high["MetricName"], high["Period"]) == ("ConcurrentRequestsPerModel", 10)
    assert low["Period"] * low["EvaluationPeriods"] == 15 * 60
    to_the_minute(idle_emulator)
    runtime = idle_emulator.client("sagemaker-runtime")
    for _ in range(4):
        runtime.invoke_endpoint(EndpointName="crowded", Body=b"x")
        idle_emulator.advance(10)
    until(idle_emulator, "crowded", (1, 2))


def test_instances_are_removed_only_if_every_policy_asks_for_it(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "two", count=2)
    bounds(idle_emulator, target, 1, 4)
    alarms = track(idle_emulator, target, 5.0, ScaleInCooldown=0)["Alarms"]
    custom = {"Namespace": "mine", "MetricName": "queue", "Statistic": "Average"}
    tracking = {"TargetValue": 9.0, "CustomizedMetricSpecification": custom, "ScaleInCooldown": 0}
    others = put_policy(idle_emulator, target, "queue", tracking)["Alarms"]
    watch = idle_emulator.client("cloudwatch")
    for name, state in ((alarms[1], "ALARM"), (others[1], "OK")):
        watch.set_alarm_state(AlarmName=name["AlarmName"], StateValue=state, StateReason="test")
    to_the_minute(idle_emulator)
    idle_emulator.advance(60)
    assert counts(idle_emulator, "two") == (2, 2)
    watch.set_alarm_state(AlarmName=others[1]["AlarmName"], StateValue="ALARM", StateReason="test")
    idle_emulator.advance(60)
    until(idle_emulator, "two", (2, 1))


def test_scheduled_action_sets_the_bounds_at_its_time(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "timed")
    bounds(idle_emulator, target, 1, 4)
    to_the_minute(idle_emulator)
    moment = minutes_ahead(idle_emulator, 10)
    expression = f"cron({moment.minute} {moment.hour} ? * * *)"
    schedule(
        idle_emulator, target, "day", expression, ScalableTargetAction={"MinCapacity": 3, "MaxCapacity": 5}
    )
    once = minutes_ahead(idle_emulator, 30)
    at = f"at({once:%Y-%m-%dT%H:%M:%S})"
    schedule(idle_emulator, target, "night", at, ScalableTargetAction={"MinCapacity": 1, "MaxCapacity": 1})
    idle_emulator.advance(8 * 60)
    assert registered(idle_emulator, target) == (1, 4)
    idle_emulator.advance(3 * 60)
    until(idle_emulator, "timed", (1, 3))
    assert registered(idle_emulator, target) == (3, 5)
    assert activities(idle_emulator, target)[0]["Cause"] == "scheduled action name day was triggered"
    idle_emulator.advance(SCALED)
    until(idle_emulator, "timed", (3, 3))
    idle_emulator.advance(30 * 60)
    until(idle_emulator, "timed", (3, 1))
    assert registered(idle_emulator, target) == (1, 1)


def test_scheduled_action_follows_its_time_zone(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "zoned")
    bounds(idle_emulator, target, 1, 4)
    to_the_minute(idle_emulator)
    moment = minutes_ahead(idle_emulator, 5)
    expression = f"cron({moment.minute} {(moment.hour + 9) % 24} ? * * *)"
    action = {"MinCapacity": 2}
    schedule(idle_emulator, target, "east", expression, ScalableTargetAction=action, Timezone="Asia/Tokyo")
    schedule(idle_emulator, target, "here", expression, ScalableTargetAction={"MinCapacity": 4})
    idle_emulator.advance(6 * 60)
    until(idle_emulator, "zoned", (1, 2))
    assert registered(idle_emulator, target) == (2, 4)


def test_scheduled_actions_are_listed_changed_and_deleted_with_their_target(idle_emulator: Emulated) -> None:
    api, target = idle_emulator.client("application-autoscaling"), live(idle_emulator, "listed")
    with pytest.raises(api.exceptions.ObjectNotFoundException, match="No scalable target registered"):
        schedule(idle_emulator, target, "a", "rate(1 hour)", ScalableTargetAction={"MinCapacity": 2})
    bounds(idle_emulator, target, 1, 4)
    schedule(idle_emulator, target, "a", "rate(1 hour)", ScalableTargetAction={"MinCapacity": 2})
    schedule(idle_emulator, target, "a", "rate(2 hours)")
    (found,) = api.describe_scheduled_actions(**target)["ScheduledActions"]
    assert (found["Schedule"], found["ScalableTargetAction"]) == ("rate(2 hours)", {"MinCapacity": 2})
    api.delete_scheduled_action(ScheduledActionName="a", **target)
    with pytest.raises(api.exceptions.ObjectNotFoundException, match="No scheduled action found"):
        api.delete_scheduled_action(ScheduledActionName="a", **target)
    schedule(idle_emulator, target, "b", "rate(1 hour)", ScalableTargetAction={"MaxCapacity": 2})
    api.deregister_scalable_target(**target)
    bounds(idle_emulator, target, 1, 4)
    assert api.describe_scheduled_actions(**target)["ScheduledActions"] == []


@pytest.mark.parametrize(
    ("expression", "more", "message"),
    [
        ("every day", {}, "Invalid schedule expression"),
        ("cron(0 20 * * * *)", {}, "exactly one of day of month and day of week"),
        ("rate(1 hour)", {"Timezone": "Europe/Berlim"}, "Invalid timezone"),
        ("rate(1 hour)", {"ScalableTargetAction": {}}, "must have MinCapacity"),
        (
            "rate(1 hour)",
            {"ScalableTargetAction": {"MinCapacity": 3, "MaxCapacity": 2}},
            "Maximum capacity cannot be less",
        ),
    ],
)
def test_invalid_scheduled_action_is_refused(
    idle_emulator: Emulated, expression: str, more: dict[str, Any], message: str
) -> None:
    name = f"invalid{abs(hash((expression, message))) % 10**8}"
    target = live(idle_emulator, name)
    bounds(idle_emulator, target, 1, 4)
    with pytest.raises(ClientError, match=message):
        schedule(
            idle_emulator, target, "a", expression, **{"ScalableTargetAction": {"MinCapacity": 2}, **more}
        )


def test_policies_of_a_target_are_limited(idle_emulator: Emulated) -> None:
    api, target = idle_emulator.client("application-autoscaling"), live(idle_emulator, "many")
    bounds(idle_emulator, target, 1, 2)
    tracking = {"TargetValue": 5.0, "PredefinedMetricSpecification": {"PredefinedMetricType": METRIC}}
    for number in range(50):
        put_policy(idle_emulator, target, f"p{number}", tracking)
    put_policy(idle_emulator, target, "p0", tracking)
    with pytest.raises(api.exceptions.LimitExceededException, match="at most 50"):
        put_policy(idle_emulator, target, "p50", tracking)
    idle_emulator.client("sagemaker").delete_endpoint(EndpointName="many")
    assert alarm_names(idle_emulator, "TargetTracking-endpoint/many/") == []
