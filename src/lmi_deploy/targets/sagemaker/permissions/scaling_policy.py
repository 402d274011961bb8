"""The permissions that autoscaling, `lmi scale` and the recipe's alarms need: both are alarms of CloudWatch."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.targets.sagemaker.permissions.arns import Arns

_SCALING_ROLE = (
    "role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
    "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)


def scaling(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    """Removing is always allowed: an update without autoscaling, and `down`, need it."""
    yield PolicyStatement(
        sid="LookAtScaling",
        actions=(
            "application-autoscaling:DescribeScalableTargets",
            "application-autoscaling:DescribeScalingPolicies",
            "application-autoscaling:DescribeScheduledActions",
            "cloudwatch:DescribeAlarms",
        ),
        resources=("*",),
        why="see whether it is scaled; these calls have no resource, or look for alarms by the start of their name",
    )
    yield PolicyStatement(
        sid="EndScaling",
        actions=(
            "application-autoscaling:DeleteScalingPolicy",
            "application-autoscaling:DeleteScheduledAction",
            "application-autoscaling:DeregisterScalableTarget",
        ),
        resources=(arns.targets,),
        why="remove scaling with the endpoint or with `autoscaling` in the recipe; scalable targets have no name",
    )
    yield PolicyStatement(
        sid="EndAlarms",
        actions=("cloudwatch:DeleteAlarms",),
        resources=arns.alarms,
        why="delete the alarms of autoscaling and of the recipe",
    )
    if spec.cloud.scaling or arns.prefix:
        yield from _tracking(spec, arns)
    if spec.cloud.scaling or spec.cloud.alarms or arns.prefix:
        yield PolicyStatement(
            sid="KeepAlarms",
            actions=("cloudwatch:PutMetricAlarm",),
            resources=arns.alarms,
            why="create the alarms of the recipe and of step scaling; target tracking creates its own with your "
            "permissions",
        )
    if spec.cloud.alarms or arns.prefix:
        yield from _watching(spec, arns)


def _tracking(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="SetScaling",
        actions=(
            "application-autoscaling:PutScalingPolicy",
            "application-autoscaling:PutScheduledAction",
            "application-autoscaling:RegisterScalableTarget",
        ),
        resources=(arns.targets,),
        why="set minimum and maximum of the instances, target values and schedules",
    )
    yield PolicyStatement(
        sid="LinkScaling",
        actions=("iam:CreateServiceLinkedRole",),
        resources=(f"arn:{spec.cloud.partition}:iam::{spec.cloud.account}:{_SCALING_ROLE}",),
        why="the first scaling in an account creates this AWS role",
        conditions=(
            ("StringEquals", "iam:AWSServiceName", ("sagemaker.application-autoscaling.amazonaws.com",)),
        ),
    )


def _watching(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    """Source: Service Authorization Reference, "Amazon CloudWatch" (PutMetricAlarm with tags) and "Amazon SNS"."""
    yield PolicyStatement(
        sid="TagAlarms",
        actions=("cloudwatch:TagResource",),
        resources=(arns.watching_alarms,),
        why="create the alarms with tags, by which `lmi gc` finds them",
    )
    if spec.cloud.alarms:
        yield PolicyStatement(
            sid="SeeTopic",
            actions=("sns:GetTopicAttributes",),
            resources=(spec.cloud.alarms.topic,),
            why="see whether the alarms' topic exists, and has subscriptions; optional",
        )
