"""Step scaling; an asynchronous endpoint and an inference component that scale to zero and back."""

from __future__ import annotations

import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.emulator.test_async_invocation import content, created
from tests.emulator.test_autoscaling import (
    PROVISIONED,
    SCALED,
    TIMEOUT,
    activities,
    bounds,
    counts,
    live,
    to_the_minute,
    until,
)
from tests.emulator.test_components import create, described, invoke, settled, with_model
from tests.emulator.test_scaling_policies import put_policy
from tests.support.emulator_process import Emulated

DIMENSION = "sagemaker:variant:DesiredInstanceCount"


def put_steps(
    aws: Emulated, target: dict[str, str], name: str, steps: list[dict[str, Any]], **more: Any
) -> str:
    configuration = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": steps, "Cooldown": 0, **more}
    put = aws.client("application-autoscaling").put_scaling_policy(
        PolicyName=name, PolicyType="StepScaling", StepScalingPolicyConfiguration=configuration, **target
    )
    arn: str = put["PolicyARN"]
    return arn


def alarm(aws: Emulated, name: str, policy: str, metric: dict[str, Any], threshold: float) -> None:
    aws.client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        AlarmActions=[policy],
        Period=60,
        EvaluationPeriods=1,
        Threshold=threshold,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        **metric,
    )


def test_step_is_chosen_by_the_distance_from_the_threshold(idle_emulator: Emulated) -> None:
    target = live(idle_emulator, "stepped")
    bounds(idle_emulator, target, 1, 9)
    near = {"MetricIntervalLowerBound": 0.0, "MetricIntervalUpperBound": 10.0, "ScalingAdjustment": 1}
    far = {"MetricIntervalLowerBound": 10.0, "ScalingAdjustment": 3}
    policy = put_steps(idle_emulator, target, "busy", [near, far])
    metric = {"Namespace": "mine", "MetricName": "waiting", "Statistic": "Average"}
    alarm(idle_emulator, "stepped-alarm", policy, metric, 20.0)
    watch = idle_emulator.client("cloudwatch")
    expected = 1
    for value, change in ((19.0, 0), (20.0, 1), (30.0, 3)):
        to_the_minute(idle_emulator)
        watch.put_metric_data(Namespace="mine", MetricData=[{"MetricName": "waiting", "Value": value}])
        idle_emulator.advance(60)
        expected += change
        until(idle_emulator, "stepped", (expected - change, expected))
        idle_emulator.advance(SCALED)
        until(idle_emulator, "stepped", (expected, expected))
        watch.put_metric_data(Namespace="mine", MetricData=[{"MetricName": "waiting", "Value": 0.0}])
        idle_emulator.advance(61)
    assert activities(idle_emulator, target)[0]["Cause"].startswith("monitor alarm stepped-alarm in state")


@pytest.mark.parametrize(
    ("steps", "more", "message"),
    [
        ([], {}, "at least one step adjustment"),
        (
            [{"MetricIntervalLowerBound": 5.0, "MetricIntervalUpperBound": 5.0, "ScalingAdjustment": 1}],
            {},
            "greater",
        ),
        (
            [
                {"MetricIntervalLowerBound": 0.0, "MetricIntervalUpperBound": 5.0, "ScalingAdjustment": 1},
                {"MetricIntervalLowerBound": 6.0, "ScalingAdjustment": 2},
            ],
            {},
            "neither overlap nor have a gap",
        ),
        ([{"ScalingAdjustment": -1}], {"AdjustmentType": "ExactCapacity"}, "must not be negative"),
    ],
)
def test_invalid_steps_are_refused(
    idle_emulator: Emulated, steps: list[dict[str, Any]], more: dict[str, Any], message: str
) -> None:
    target = live(idle_emulator, f"bad{abs(hash(message)) % 10**8}")
    bounds(idle_emulator, target, 1, 9)
    with pytest.raises(ClientError, match=message):
        put_steps(idle_emulator, target, "p", steps, **more)


def test_real_time_endpoint_does_not_scale_to_zero(idle_emulator: Emulated) -> None:
    live(idle_emulator, "awake")
    with pytest.raises(ClientError, match="is not asynchronous"):
        idle_emulator.client("sagemaker").update_endpoint_weights_and_capacities(
            EndpointName="awake",
            DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 0}],
        )


def test_asynchronous_endpoint_scales_to_zero_and_its_queue_wakes_it(idle_emulator: Emulated) -> None:
    created(idle_emulator, "sleeper", "s3:GetObject", "s3:PutObject")
    idle_emulator.advance(PROVISIONED)
    idle_emulator.settled("sleeper")
    runtime = idle_emulator.client("sagemaker-runtime")
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/sleeper/variant/main",
        "ScalableDimension": DIMENSION,
    }
    bounds(idle_emulator, target, 0, 2)
    of = {"Namespace": "AWS/SageMaker", "Dimensions": [{"Name": "EndpointName", "Value": "sleeper"}]}
    backlog = {**of, "MetricName": "ApproximateBacklogSizePerInstance", "Statistic": "Average"}
    put_policy(idle_emulator, target, "queue", {"TargetValue": 5.0, "CustomizedMetricSpecification": backlog})
    steps = [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}]
    wake = put_steps(idle_emulator, target, "wake", steps, Cooldown=300)
    alarm(
        idle_emulator,
        "sleeper-wake",
        wake,
        {**of, "MetricName": "HasBacklogWithoutCapacity", "Statistic": "Average"},
        1.0,
    )
    to_the_minute(idle_emulator)
    for _ in range(17):
        idle_emulator.advance(60)
    until(idle_emulator, "sleeper", (0, 0))
    response = runtime.invoke_endpoint_async(EndpointName="sleeper", Body=b"late")
    assert content(idle_emulator, response["OutputLocation"], wait=0.2) is None
    for _ in range(4):
        idle_emulator.advance(60)
    until(idle_emulator, "sleeper", (1, 1))
    idle_emulator.advance(10)
    assert content(idle_emulator, response["OutputLocation"]) == b"late"
    assert counts(idle_emulator, "sleeper") == (1, 1)


COPIES = "sagemaker:inference-component:DesiredCopyCount"
MANAGED = {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 2}


def test_idle_component_scales_to_zero_with_its_instances_and_a_request_wakes_it(
    idle_emulator: Emulated,
) -> None:
    aws = idle_emulator
    shared_at_night(aws, "night")
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "inference-component/night-1",
        "ScalableDimension": COPIES,
    }
    api, watch = aws.client("application-autoscaling"), aws.client("cloudwatch")
    api.register_scalable_target(**target, MinCapacity=0, MaxCapacity=2)
    metric = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
    api.put_scaling_policy(
        PolicyName="track",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 4.0,
            "PredefinedMetricSpecification": {"PredefinedMetricType": metric},
        },
        **target,
    )
    names = [
        alarm["AlarmName"]
        for alarm in watch.describe_alarms(AlarmNamePrefix="TargetTracking-inf")["MetricAlarms"]
    ]
    assert all(name.startswith("TargetTracking-inference-component/night-1-Alarm") for name in names)
    step = {"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}
    arn = api.put_scaling_policy(
        PolicyName="wake",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={
            "AdjustmentType": "ChangeInCapacity",
            "StepAdjustments": [step],
            "Cooldown": 60,
        },
        **target,
    )["PolicyARN"]
    watch.put_metric_alarm(
        AlarmName="night-wake",
        AlarmActions=[arn],
        Namespace="AWS/SageMaker",
        MetricName="NoCapacityInvocationFailures",
        Dimensions=[{"Name": "InferenceComponentName", "Value": "night-1"}],
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
    )
    aws.advance(1000)
    reached(aws, "night-1", requested=0, copies=0)
    assert counts(aws, "night") == (1, 1)
    aws.advance(700)
    assert counts(aws, "night") == (0, 0)
    runtime = aws.client("sagemaker-runtime")
    with pytest.raises(runtime.exceptions.ClientError, match="has no capacity to process this request"):
        invoke(aws, "night", "night-1", "x")
    aws.advance(61)
    reached(aws, "night-1", requested=1, copies=0)
    assert counts(aws, "night") == (1, 1)
    aws.advance(PROVISIONED)
    reached(aws, "night-1", requested=1, copies=1)
    assert invoke(aws, "night", "night-1", "x") == b'"x"'


def shared_at_night(aws: Emulated, name: str) -> None:
    variant = {
        "VariantName": "v",
        "InstanceType": "ml.g5.12xlarge",
        "InitialInstanceCount": 1,
        "ManagedInstanceScaling": MANAGED,
    }
    aws.client("sagemaker").create_endpoint_config(
        EndpointConfigName=name, ExecutionRoleArn=aws.role(), ProductionVariants=[variant]
    )
    aws.endpoint(name)
    aws.advance(PROVISIONED)
    aws.settled(name)
    create(aws, f"{name}-1", name, with_model(aws, f"{name}-m"))
    aws.advance(PROVISIONED)
    assert settled(aws, f"{name}-1")["InferenceComponentStatus"] == "InService"


def reached(aws: Emulated, name: str, *, requested: int, copies: int) -> None:
    desired, deadline = (
        {"DesiredCopyCount": requested, "CurrentCopyCount": copies},
        time.monotonic() + TIMEOUT,
    )
    while (found := described(aws, name))["RuntimeConfig"] != desired:
        assert time.monotonic() < deadline, f"{found}\n{aws.log.read_text()}"
        time.sleep(0.02)
