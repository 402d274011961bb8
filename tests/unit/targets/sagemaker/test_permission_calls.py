"""Policies and adapters have the same calls: none is made without a grant, none is granted without a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

from lmi_deploy.aws.s3.error_messages import ACTIONS
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.targets.sagemaker.permissions import Policy, load_role_of, policies
from lmi_deploy.targets.sagemaker.permissions.bootstrap_policy import bootstrap_policy
from lmi_deploy.targets.sagemaker.permissions.pipeline_identity import parse_pipeline
from lmi_deploy.targets.sagemaker.permissions.team_setup import team_setup
from tests.support.cloud_factories import built_spec, cloud_spec, compiled_spec, shared_spec

AWS = Path(__file__).resolve().parents[4] / "src" / "lmi_deploy" / "aws"
ADAPTERS = (*AWS.glob("*.py"), *(AWS / "sagemaker").glob("*.py"))
PREFIXES = {
    "ec2": "ec2",
    "cloudwatch": "cloudwatch",
    "sagemaker": "sagemaker",
    "sagemaker-runtime": "sagemaker",
    "application-autoscaling": "application-autoscaling",
    "logs": "logs",
    "service-quotas": "servicequotas",
    "pricing": "pricing",
    "resourcegroupstaggingapi": "tag",
    "ecr": "ecr",
    "iam": "iam",
    "secretsmanager": "secretsmanager",
    "cloudtrail": "cloudtrail",
    "sns": "sns",
}
BEHIND = {
    # Required by AWS behind one of our calls.
    "iam:PassRole",
    "iam:CreateServiceLinkedRole",
    "cloudwatch:DeleteAlarms",
    "cloudwatch:DescribeAlarms",
    "cloudwatch:PutMetricAlarm",
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    # What is created with tags.
    "cloudwatch:TagResource",
    "iam:TagOpenIDConnectProvider",
    "iam:TagPolicy",
    "iam:TagRole",
    "kms:GenerateDataKey",
    # Of a push by the container CLI; ecr:TagResource for a repository that is created with tags.
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:TagResource",
    "ecr:UploadLayerPart",
    # Of the requests that a client sends with a token of `lmi token`.
    "sagemaker:CallWithBearerToken",
}
OF_ECR = {"ListTagsForResource"}
"""Operations that other services have, too, and that lmi uses only of ECR."""
OTHERS = {
    ("sns", "DeleteEndpoint"),
    *(("cloudtrail", name) for name in ("AddTags", "GetDashboard", "ListTags")),
}
"""Operations whose names are those of another service's that lmi uses."""
BY_THE_ROLE = {"secretsmanager:GetSecretValue"}
BY_HAND = {"cloudtrail:LookupEvents", "s3:ListBucketVersions"}
"""No printed policy lets a deployer delete versions (`lmi weights rm --versions`), or read the log of the account."""


def whole() -> Spec:
    """With everything that needs permissions."""
    return cloud_spec(
        "instance_type: ml.g5.xlarge\nweights: {via: job, token_secret: hub-token}\nendpoint:\n"
        "  kms_key: alias/x\n  autoscaling: {min: 1, max: 2, backlog_per_instance: 9}\n"
        "  alarms: {topic: 'arn:aws:sns:us-east-1:123456789012:on-call'}\n  asynchronous: {}\n"
    )


def setup_policy() -> Policy:
    """Of `lmi bootstrap` with all that it can create."""
    spec = cloud_spec()
    return bootstrap_policy(spec, team_setup(spec, pipeline=parse_pipeline("github:acme/models")))


def called() -> set[str]:
    """The adapters' calls as IAM actions."""
    words = {word for path in ADAPTERS for word in _words(path)}
    own = {actions()[word] for word in words if word in actions()}
    return own | set(ACTIONS.values())


def _words(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def actions() -> dict[str, str]:
    """Converts boto3's names of calls to IAM's."""
    session = botocore.session.get_session()
    return {
        xform_name(name): f"{prefix}:{name}"
        for service, prefix in PREFIXES.items()
        for name in session.get_service_model(service).operation_names
        if (service == "ecr" or name not in OF_ECR) and (service, name) not in OTHERS
    }


def granted() -> set[str]:
    specs = (whole(), compiled_spec(), compiled_spec(script=False), built_spec(), shared_spec())
    loading = policies(whole(), load_role=load_role_of(whole(), None))
    granting = (*(policies(spec).deployer for spec in specs), loading.deployer, setup_policy())
    return {right.action for policy in granting for right in policy.rights}


def test_every_call_is_granted() -> None:
    assert called() - granted() - BY_THE_ROLE - BY_HAND == set()


def test_every_granted_permission_is_used_by_a_call() -> None:
    assert granted() - called() - BEHIND == set()
