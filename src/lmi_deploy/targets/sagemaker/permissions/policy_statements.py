"""Policy statements for single tasks, and the permissions that both roles have."""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.permissions import SAGEMAKER, SCHEDULER, PolicyStatement
from lmi_deploy.targets.sagemaker.permissions.arns import Arns

_SERVICES: Final = {SAGEMAKER: "SageMaker", SCHEDULER: "EventBridge Scheduler"}
WRITE_OBJECTS: Final = (
    "s3:AbortMultipartUpload",
    "s3:GetObject",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)
"""Multipart uploads: start, resume and list."""
WRITE_RESPONSES: Final = ("s3:AbortMultipartUpload", "s3:PutObject")
ENCRYPT: Final = ("kms:Decrypt", "kms:GenerateDataKey")
PULL_IMAGE: Final = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
_WRITE_LOGS: Final = (
    "logs:CreateLogGroup",
    "logs:CreateLogStream",
    "logs:DescribeLogStreams",
    "logs:PutLogEvents",
)
_JOIN_NETWORK: Final = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)


_ENTER_REGISTRY: Final = PolicyStatement(
    sid="EnterRegistry",
    actions=("ecr:GetAuthorizationToken",),
    resources=("*",),
    why="log in to the registry; the call has no resource",
)
_PUSH: Final = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchDeleteImage",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:CreateRepository",
    "ecr:DeleteRepository",
    "ecr:DescribeImages",
    "ecr:InitiateLayerUpload",
    "ecr:ListTagsForResource",
    "ecr:PutImage",
    "ecr:TagResource",
    "ecr:UploadLayerPart",
)
"""AWS's own list for a push (ECR user guide, "Pushing an image"), and the repository itself."""


def push_image(arns: Arns) -> tuple[PolicyStatement, PolicyStatement]:
    return (
        _ENTER_REGISTRY,
        PolicyStatement(
            sid="PushImage",
            actions=_PUSH,
            resources=(arns.own_repository,),
            why="create the repository of container.build, push its image, delete images that are no longer used",
        ),
    )


def pull_image(arns: Arns, image: str) -> tuple[PolicyStatement, PolicyStatement]:
    return (
        _ENTER_REGISTRY,
        PolicyStatement(
            sid="PullImage",
            actions=PULL_IMAGE,
            resources=(arns.repository(image),),
            why="the container's image",
        ),
    )


def write_telemetry(group: str, *, why: str) -> tuple[PolicyStatement, PolicyStatement]:
    """`group` is the ARN of a log group."""
    return (
        PolicyStatement(sid="WriteLogs", actions=_WRITE_LOGS, resources=(group, f"{group}:*"), why=why),
        PolicyStatement(
            sid="WriteMetrics",
            actions=("cloudwatch:PutMetricData",),
            resources=("*",),
            why="write metrics of the instances; the call has no resource",
        ),
    )


def pass_role(role: str, *, sid: str, what: str, to: str = SAGEMAKER) -> PolicyStatement:
    """`what`: whose role it is; `to`: the only service that gets it."""
    return PolicyStatement(
        sid=sid,
        actions=("iam:PassRole",),
        resources=(role,),
        why=f"pass {what} to {_SERVICES[to]}, and to no other service",
        conditions=(("StringEquals", "iam:PassedToService", (to,)),),
    )


def join_network() -> PolicyStatement:
    return PolicyStatement(
        sid="JoinNetwork",
        actions=_JOIN_NETWORK,
        resources=("*",),
        why="the recipe's VPC: SageMaker creates network interfaces in it",
    )


def use_key(arns: Arns, *, sid: str = "UseKey", actions: tuple[str, ...] = ENCRYPT) -> PolicyStatement:
    key, conditions = arns.key
    return PolicyStatement(
        sid=sid,
        actions=actions,
        resources=(key,),
        why="use the recipe's key for objects in the bucket",
        conditions=conditions,
    )


def read_job_logs(arns: Arns, *, sid: str) -> PolicyStatement:
    group = arns.job_logs
    return PolicyStatement(
        sid=sid, actions=("logs:FilterLogEvents",), resources=(group, f"{group}:*"), why="the job's logs"
    )


def lend_key(arns: Arns, *, what: str) -> PolicyStatement:
    key, conditions = arns.key
    return PolicyStatement(
        sid="LendKey",
        actions=("kms:CreateGrant",),
        resources=(key,),
        why=f"let SageMaker encrypt {what} with the key",
        conditions=(*conditions, ("Bool", "kms:GrantIsForAWSResource", ("true",))),
    )


def decrypt_in_place(weights: InPlaceWeights) -> PolicyStatement:
    """Of the endpoint's role, and of the deployer, who reads the headers. S3 names the keys by their ARNs."""
    return PolicyStatement(
        sid="DecryptInPlace",
        actions=("kms:Decrypt",),
        resources=weights.kms_keys,
        why="read weights in place that are encrypted with these keys",
    )
