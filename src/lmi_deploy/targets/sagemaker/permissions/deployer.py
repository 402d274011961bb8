"""The permissions of a deployer: exactly what plan, up, status, logs, invoke, rollback and down need from AWS."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.buckets import default_bucket
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.spec import Spec
from lmi_deploy.domain.target_spec import JobPlace
from lmi_deploy.targets.sagemaker.permissions.arns import Arns
from lmi_deploy.targets.sagemaker.permissions.statements import WRITE_OBJECTS

_TO_SAGEMAKER = (("StringEquals", "iam:PassedToService", ("sagemaker.amazonaws.com",)),)
_SCALING_ROLE = (
    "role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
    "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)


def deployer(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    yield from _storage(spec, arns)
    yield from _hosting(arns)
    yield from _role(spec, arns)
    yield from _scaling(spec, arns)
    yield from _read_statements(arns)
    if spec.cloud.kms_key:
        yield from _key(arns)
    if spec.cloud.job is not None:
        yield from _job(spec, spec.cloud.job, arns)


def _storage(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="LookIntoBucket",
        actions=("s3:GetLifecycleConfiguration", "s3:ListBucket", "s3:ListBucketMultipartUploads"),
        resources=(arns.bucket,),
        why="is the bucket ours, what is there, what was left half done",
    )
    yield PolicyStatement(
        sid="ReadShared",
        actions=("s3:GetObject",),
        resources=arns.objects("weights/", "manifests/", "deployments/"),
        why="files that are there already are copied inside S3; weights that another deployment uses stay",
    )
    yield PolicyStatement(
        sid="WriteOwn",
        actions=tuple(sorted((*WRITE_OBJECTS, "s3:DeleteObject"))),
        resources=arns.objects(*arns.weights, arns.artifacts, arns.records),
        why="weights, artifact, record and lock of this deployment",
    )
    if spec.cloud.bucket == default_bucket(spec.cloud.account, spec.cloud.region):
        yield _making(arns)
    if arns.source is not None:
        bucket, objects = arns.source
        yield PolicyStatement(
            sid="ListSource", actions=("s3:ListBucket",), resources=(bucket,), why="model_id lies in S3"
        )
        yield PolicyStatement(
            sid="ReadSource", actions=("s3:GetObject",), resources=(objects,), why="model_id lies in S3"
        )


def _making(arns: Arns) -> PolicyStatement:
    return PolicyStatement(
        sid="MakeBucket",
        actions=(
            "s3:CreateBucket",
            "s3:DeleteBucket",
            "s3:PutBucketPolicy",
            "s3:PutBucketPublicAccessBlock",
            "s3:PutBucketTagging",
            "s3:PutEncryptionConfiguration",
        ),
        resources=(arns.bucket,),
        why="the account's default bucket, once; one that cannot be made whole goes again",
    )


def _hosting(arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="KeepResources",
        actions=("sagemaker:AddTags", "sagemaker:ListTags"),
        resources=(arns.endpoint, arns.configs, arns.models),
        why="everything carries tags by which it is found again",
    )
    yield PolicyStatement(
        sid="RunEndpoint",
        actions=("sagemaker:CreateEndpoint", "sagemaker:UpdateEndpoint"),
        resources=(arns.endpoint, arns.configs),
        why="the endpoint, which is made and changed with one of its configurations",
    )
    yield PolicyStatement(
        sid="UseEndpoint",
        actions=(
            "sagemaker:DeleteEndpoint",
            "sagemaker:DeleteTags",
            "sagemaker:DescribeEndpoint",
            "sagemaker:InvokeEndpoint",
            "sagemaker:InvokeEndpointWithResponseStream",
        ),
        resources=(arns.endpoint,),
        why="`up` ends with one request to it, and takes off tags that left the recipe",
    )
    yield PolicyStatement(
        sid="UseEndpointConfigs",
        actions=(
            "sagemaker:CreateEndpointConfig",
            "sagemaker:DeleteEndpointConfig",
            "sagemaker:DescribeEndpointConfig",
        ),
        resources=(arns.configs,),
        why="its configurations, whose names end in ten digits of their digest",
    )
    yield PolicyStatement(
        sid="UseModels",
        actions=("sagemaker:CreateModel", "sagemaker:DeleteModel", "sagemaker:DescribeModel"),
        resources=(arns.models,),
        why="its models, named alike",
    )


def _role(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="HandOverRole",
        actions=("iam:PassRole",),
        resources=(spec.cloud.role,),
        why="the endpoint runs with the execution role; it goes to SageMaker and nowhere else",
        conditions=_TO_SAGEMAKER,
    )
    account = f"arn:{spec.cloud.partition}:iam::{spec.cloud.account}"
    yield PolicyStatement(
        sid="CheckRights",
        actions=("iam:GetRole", "iam:SimulatePrincipalPolicy"),
        resources=(f"{account}:role/*", f"{account}:user/*"),
        why="the check before anything is created; without it the check is skipped, and said so",
    )


def _scaling(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    """Removing is always allowed: an update without autoscaling, and `down`, need it."""
    yield PolicyStatement(
        sid="LookAtScaling",
        actions=(
            "application-autoscaling:DescribeScalableTargets",
            "application-autoscaling:DescribeScalingPolicies",
        ),
        resources=("*",),
        why="is it scaled; the calls know no resource",
    )
    yield PolicyStatement(
        sid="EndScaling",
        actions=(
            "application-autoscaling:DeleteScalingPolicy",
            "application-autoscaling:DeregisterScalableTarget",
        ),
        resources=(arns.targets,),
        why="scaling goes with the endpoint, and with `autoscaling` in the recipe; targets have no names of ours",
    )
    yield PolicyStatement(
        sid="EndAlarms",
        actions=("cloudwatch:DeleteAlarms",),
        resources=(arns.alarms,),
        why="the alarms of target tracking go with it, in your name",
    )
    if spec.cloud.scaling or arns.prefix:
        yield from _tracking(spec, arns)


def _tracking(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="SetScaling",
        actions=(
            "application-autoscaling:PutScalingPolicy",
            "application-autoscaling:RegisterScalableTarget",
        ),
        resources=(arns.targets,),
        why="least and most instances, and the requests to aim at",
    )
    yield PolicyStatement(
        sid="KeepAlarms",
        actions=("cloudwatch:DescribeAlarms", "cloudwatch:PutMetricAlarm"),
        resources=(arns.alarms,),
        why="target tracking keeps its alarms in your name",
    )
    yield PolicyStatement(
        sid="LetScalingAct",
        actions=("sagemaker:UpdateEndpointWeightsAndCapacities",),
        resources=(arns.endpoint,),
        why="who registers an endpoint for scaling must be allowed to scale it",
    )
    yield PolicyStatement(
        sid="LinkScaling",
        actions=("iam:CreateServiceLinkedRole",),
        resources=(f"arn:{spec.cloud.partition}:iam::{spec.cloud.account}:{_SCALING_ROLE}",),
        why="the first scaling in an account makes this role of AWS's",
        conditions=(
            ("StringEquals", "iam:AWSServiceName", ("sagemaker.application-autoscaling.amazonaws.com",)),
        ),
    )


def _read_statements(arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="FindByTag",
        actions=("tag:GetResources",),
        resources=("*",),
        why="what is ours, wherever it was made; the call knows no resource",
    )
    yield PolicyStatement(
        sid="FindLogs",
        actions=("logs:DescribeLogGroups",),
        resources=("*",),
        why="is there a log group; the call knows no resource",
    )
    yield PolicyStatement(
        sid="ReadLogs",
        actions=("logs:DeleteLogGroup", "logs:FilterLogEvents"),
        resources=(arns.group, f"{arns.group}:*"),
        why="what the server printed; `down --logs` removes it",
    )
    yield PolicyStatement(
        sid="PlanAhead",
        actions=(
            "pricing:GetProducts",
            "servicequotas:ListAWSDefaultServiceQuotas",
            "servicequotas:ListServiceQuotas",
        ),
        resources=("*",),
        why="prices and quotas of the plan; without them the plan says that it does not know",
    )


def _key(arns: Arns) -> Iterator[PolicyStatement]:
    key, conditions = arns.key
    yield PolicyStatement(
        sid="UseKey",
        actions=("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"),
        resources=(key,),
        why="objects of a bucket that is encrypted with the recipe's key",
        conditions=conditions,
    )
    yield PolicyStatement(
        sid="LendKey",
        actions=("kms:CreateGrant",),
        resources=(key,),
        why="SageMaker encrypts the endpoint's volume with it",
        conditions=(*conditions, ("Bool", "kms:GrantIsForAWSResource", ("true",))),
    )


def _job(spec: Spec, job: JobPlace, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="HandOverJobRole",
        actions=("iam:PassRole",),
        resources=(job.role,),
        why="the transfer job runs with a role of its own; it goes to SageMaker and nowhere else",
        conditions=_TO_SAGEMAKER,
    )
    yield PolicyStatement(
        sid="RunTransferJob",
        actions=(
            "sagemaker:AddTags",
            "sagemaker:CreateProcessingJob",
            "sagemaker:DescribeProcessingJob",
            "sagemaker:ListTags",
            "sagemaker:StopProcessingJob",
        ),
        resources=arns.jobs,
        why="the job that brings the weights (weights.via: job)",
    )
    yield PolicyStatement(
        sid="HandJobItsOrder",
        actions=("s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
        resources=arns.orders,
        why="what the job is told, and what it notes",
    )
    group = arns.of("logs", "log-group:/aws/sagemaker/ProcessingJobs")
    yield PolicyStatement(
        sid="ReadJobLogs",
        actions=("logs:FilterLogEvents",),
        resources=(group, f"{group}:*"),
        why="what the job prints",
    )
    if spec.cloud.token_secret:
        yield PolicyStatement(
            sid="FindToken",
            actions=("secretsmanager:DescribeSecret",),
            resources=(arns.secret,),
            why="is the secret there; its value is never read from here",
        )
