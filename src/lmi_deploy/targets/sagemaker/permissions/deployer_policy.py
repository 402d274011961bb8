"""The permissions of a deployer: exactly what plan, up, status, logs, invoke, token, rollback and down need from
AWS.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous
from lmi_deploy.targets.sagemaker.permissions.arns import Arns
from lmi_deploy.targets.sagemaker.permissions.compile_job_policy import compile_starter
from lmi_deploy.targets.sagemaker.permissions.component_policy import use_components
from lmi_deploy.targets.sagemaker.permissions.load_job_policy import load_job_starter
from lmi_deploy.targets.sagemaker.permissions.policy_statements import (
    WRITE_OBJECTS,
    decrypt_in_place,
    lend_key,
    pass_role,
    push_image,
    use_key,
)
from lmi_deploy.targets.sagemaker.permissions.scaling_policy import scaling
from lmi_deploy.targets.sagemaker.permissions.scheduler_policy import schedule_deletion
from lmi_deploy.targets.sagemaker.permissions.transfer_job_policy import transfer_job_starter


def deployer(spec: Spec, arns: Arns, *, load_role: str = "") -> Iterator[PolicyStatement]:
    yield from _storage(spec, arns)
    yield from _endpoint(arns)
    yield from _configs_and_models(arns)
    yield from _role(spec, arns)
    yield from scaling(spec, arns)
    yield from _read_statements(arns)
    if spec.cloud.component is not None:
        yield from use_components(arns)
    if spec.cloud.scheduler_role:
        yield from schedule_deletion(spec.cloud.scheduler_role, arns)
    if spec.cloud.asynchronous is not None:
        yield from _asynchronous(spec.cloud.asynchronous, arns)
    if spec.cloud.build is not None:
        yield from push_image(arns)
    if spec.cloud.kms_key:
        yield from _key(arns)
    if spec.cloud.job is not None:
        yield from transfer_job_starter(spec, spec.cloud.job, arns)
    if load_role:
        yield from load_job_starter(spec, load_role, arns)
    if spec.cloud.compile is not None:
        yield from compile_starter(spec.cloud.compile, arns)


def _storage(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="LookIntoBucket",
        actions=("s3:GetLifecycleConfiguration", "s3:ListBucket", "s3:ListBucketMultipartUploads"),
        resources=(arns.bucket,),
        why="check the bucket's owner; list objects and unfinished uploads",
    )
    yield PolicyStatement(
        sid="ReadShared",
        actions=("s3:GetObject",),
        resources=arns.objects("weights/", "manifests/", "deployments/"),
        why="copy existing files inside S3; find the weights that other deployments use",
    )
    yield PolicyStatement(
        sid="WriteOwn",
        actions=tuple(sorted((*WRITE_OBJECTS, "s3:DeleteObject"))),
        resources=arns.objects(*arns.weights, *arns.additional_weights, arns.artifacts, arns.records),
        why="weights, artifact, record and lock of this deployment",
    )
    if spec.cloud.bucket == default_bucket(spec.cloud.account, spec.cloud.region):
        yield _making(arns)
    if arns.sources:
        buckets = tuple(dict.fromkeys(bucket for bucket, _ in arns.sources))
        objects = tuple(objects for _, objects in arns.sources)
        why = "models in S3" if len(objects) > 1 else "model_id in S3"
        yield PolicyStatement(sid="ListSource", actions=("s3:ListBucket",), resources=buckets, why=why)
        yield PolicyStatement(sid="ReadSource", actions=("s3:GetObject",), resources=objects, why=why)
    if spec.weights.in_place is not None and spec.weights.in_place.kms_keys:
        yield decrypt_in_place(spec.weights.in_place)


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
        why="create the account's default bucket, once; delete it again if its settings fail",
    )


def _endpoint(arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="KeepResources",
        actions=("sagemaker:AddTags", "sagemaker:ListTags"),
        resources=(
            *arns.endpoints,
            *arns.endpoint_configs,
            arns.models,
            *arns.own_components,
        ),
        why="tag every resource, so that lmi finds it",
    )
    yield PolicyStatement(
        sid="RunEndpoint",
        actions=("sagemaker:CreateEndpoint", "sagemaker:UpdateEndpoint"),
        resources=(*arns.endpoints, *arns.endpoint_configs),
        why="create and update the endpoint with one of its endpoint configs",
    )
    yield PolicyStatement(
        sid="UseEndpoint",
        actions=(
            "sagemaker:DeleteEndpoint",
            "sagemaker:DeleteTags",
            "sagemaker:DescribeEndpoint",
            "sagemaker:InvokeEndpoint",
            "sagemaker:InvokeEndpointWithResponseStream",
            "sagemaker:UpdateEndpointWeightsAndCapacities",
        ),
        resources=(*arns.endpoints, *arns.own_components),
        why="probe the endpoint; remove tags that are no longer in the recipe; `lmi scale`, and scaling, which needs "
        "it of the caller that registers an endpoint",
    )
    yield PolicyStatement(
        sid="CallWithToken",
        actions=("sagemaker:CallWithBearerToken",),
        resources=("*",),
        why="the tokens of `lmi token`, which have your permissions; the action has no resource; optional",
    )


def _asynchronous(given: Asynchronous, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="InvokeAsync",
        actions=("sagemaker:InvokeEndpointAsync",),
        resources=(arns.endpoint,),
        why="probe and invoke an asynchronous endpoint",
    )
    yield PolicyStatement(
        sid="UseRequests",
        actions=("s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
        resources=arns.objects(arns.requests),
        why="write its requests, read the responses, delete both with the deployment",
    )
    output = given.output or ""
    if arns.is_foreign(output):
        yield PolicyStatement(
            sid="ReadResponses",
            actions=("s3:GetObject",),
            resources=(arns.objects_under(output),),
            why="read the responses",
        )
        yield PolicyStatement(
            sid="ListResponses",
            actions=("s3:ListBucket",),
            resources=(arns.bucket_of(output),),
            why="see whether there is a response yet",
        )
    if given.kms_key:
        key, conditions = arns.key_of(given.kms_key)
        yield PolicyStatement(
            sid="DecryptResponses",
            actions=("kms:Decrypt",),
            resources=(key,),
            why="read responses that are encrypted with the recipe's key",
            conditions=conditions,
        )


def _configs_and_models(arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="UseEndpointConfigs",
        actions=(
            "sagemaker:CreateEndpointConfig",
            "sagemaker:DeleteEndpointConfig",
        ),
        resources=arns.endpoint_configs,
        why="its endpoint configs, whose names end in ten digits of their digest",
    )
    yield PolicyStatement(
        sid="UseModels",
        actions=("sagemaker:CreateModel", "sagemaker:DeleteModel", "sagemaker:DescribeModel"),
        resources=(arns.models,),
        why="its models, named in the same way",
    )


def _role(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    yield pass_role(spec.cloud.role, sid="HandOverRole", what="the execution role")
    account = f"arn:{spec.cloud.partition}:iam::{spec.cloud.account}"
    yield PolicyStatement(
        sid="CheckRights",
        actions=("iam:GetRole", "iam:SimulatePrincipalPolicy"),
        resources=(f"{account}:role/*", f"{account}:user/*"),
        why="check the permissions before anything is created; optional",
    )


def _read_statements(arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="FindByTag",
        actions=(
            "ec2:DescribeRegions",
            "sagemaker:DescribeEndpointConfig",
            "sagemaker:ListEndpoints",
            "sagemaker:ListOptimizationJobs",
            "sagemaker:ListProcessingJobs",
            "tag:GetResources",
        ),
        resources=("*",),
        why="find deployments by their tags, list endpoints, running jobs and regions; read the config of an endpoint, "
        "which another tool may have given it",
    )
    yield PolicyStatement(
        sid="ReadMetrics",
        actions=("cloudwatch:GetMetricData", "cloudwatch:ListMetrics"),
        resources=("*",),
        why="see what endpoints did, for `lmi status` and `lmi gc --idle`; these calls have no resource; optional",
    )
    yield PolicyStatement(
        sid="ShowDashboard",
        actions=("cloudwatch:DeleteDashboards", "cloudwatch:GetDashboard", "cloudwatch:PutDashboard"),
        resources=(arns.dashboard,),
        why="write the dashboard of `lmi dashboard`, and delete it with the endpoint",
    )
    yield PolicyStatement(
        sid="FindLogs",
        actions=("logs:DescribeLogGroups",),
        resources=("*",),
        why="see whether the log group exists; the call has no resource",
    )
    yield PolicyStatement(
        sid="ReadLogs",
        actions=("logs:DeleteLogGroup", "logs:FilterLogEvents"),
        resources=(arns.group, f"{arns.group}:*"),
        why="read the logs; `down --logs` deletes them",
    )
    yield PolicyStatement(
        sid="PlanAhead",
        actions=(
            "pricing:GetProducts",
            "servicequotas:ListAWSDefaultServiceQuotas",
            "servicequotas:ListServiceQuotas",
        ),
        resources=("*",),
        why="read prices and quotas for the plan; optional",
    )


def _key(arns: Arns) -> Iterator[PolicyStatement]:
    yield use_key(arns, actions=("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"))
    yield lend_key(arns, what="the endpoint's volume")
