"""The port AutoscalingApi: what it deletes is its own."""

from __future__ import annotations

from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import ACCOUNT, REGION, Emulated

POLICIES = f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:scalingPolicy:1:resource/sagemaker/endpoint"


def test_step_alarms_of_another_deployment_stay(aws: Emulated, cloud: Cloud) -> None:
    """The names of its alarms begin as ours do: `chat-scale-`."""
    cloudwatch = aws.client("cloudwatch")
    for endpoint, alarm in (("chat", "chat-scale-out"), ("chat-scale-up", "chat-scale-up-scale-out")):
        cloudwatch.put_metric_alarm(
            AlarmName=alarm,
            AlarmActions=[f"{POLICIES}/{endpoint}/variant/main:policyName/x"],
            Namespace="AWS/SageMaker",
            MetricName="Invocations",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="GreaterThanThreshold",
        )
    cloud.scalers.remove("chat")
    left = cloudwatch.describe_alarms(AlarmNamePrefix="chat-scale-")["MetricAlarms"]
    assert [alarm["AlarmName"] for alarm in left] == ["chat-scale-up-scale-out"]
