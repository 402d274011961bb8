"""Which permissions an operation served here needs, with those that AWS also checks: to scale, to use a key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, tags_of
from lmi_deploy.emulator.iam.moto_permissions import key_of
from lmi_deploy.emulator.iam.policy_evaluation import AccessRequest
from lmi_deploy.emulator.iam.roles import iam_backend
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import (
    ENDPOINT,
    ENDPOINT_CONFIG,
    INFERENCE_COMPONENT,
    MODEL,
    OPTIMIZATION_JOB,
    PROCESSING_JOB,
    arn_of,
    by_arn,
)
from lmi_deploy.emulator.scaling.scaled_components import component_of
from lmi_deploy.emulator.scaling.scaled_variants import POLICIES, scaled_variants

PREFIXES: Final[Mapping[str, str]] = {"service-quotas": "servicequotas", "resourcegroupstaggingapi": "tag"}
# CreateEndpoint and UpdateEndpoint need rights on the endpoint and on its configuration.
NAMES: Final = {
    "EndpointName": ENDPOINT,
    "EndpointConfigName": ENDPOINT_CONFIG,
    "ModelName": MODEL,
    "ProcessingJobName": PROCESSING_JOB,
    "InferenceComponentName": INFERENCE_COMPONENT,
    "OptimizationJobName": OPTIMIZATION_JOB,
}

SCALES: Final = "sagemaker.application-autoscaling.amazonaws.com"
SCALING_ROLE: Final = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
_SCALED: Final = (
    "An Application AutoScaling scalable target exists for a variant being deleted, and the IAM identity used to "
    "invoke DeleteEndpoint does not have application-autoscaling:DeregisterScalableTarget permission to "
    "deregister the scalable target."
)


def required_rights(context: EmulatorContext, service: str, request: ApiRequest) -> Iterator[AccessRequest]:
    """All must be allowed."""
    if service == "sagemaker":
        yield from _sagemaker(context, request)
        if request.operation == "CreateEndpointConfig" and request.params.get("KmsKeyId"):
            # Creating a KMS-encrypted endpoint config creates a grant, so the caller needs kms:CreateGrant.
            arn, conditions = key_of(context.account, request.region, request.params["KmsKeyId"])
            yield AccessRequest("kms:DescribeKey", arn, conditions)
            yield AccessRequest("kms:CreateGrant", arn, {**conditions, "kms:grantisforawsresource": "true"})
        return
    action = f"{PREFIXES.get(service, service)}:{request.operation}"
    yield AccessRequest(action, _resource(context, service, request))
    if service == "application-autoscaling":
        yield from _scaling(context, request)
    if request.operation == "PutMetricAlarm" and request.params.get("Tags"):
        # "you must be signed on with both" (CloudWatch API reference, PutMetricAlarm, Tags)
        yield AccessRequest("cloudwatch:TagResource", _resource(context, service, request))
    if service == "scheduler" and "Target" in request.params:
        role = request.params["Target"]["RoleArn"]
        yield AccessRequest("iam:PassRole", role, {"iam:passedtoservice": "scheduler.amazonaws.com"})


def invoking(
    context: EmulatorContext, region: str, operation: str, endpoint: str, component: str = ""
) -> Iterator[AccessRequest]:
    """On the endpoint, and on the component that the request names (Service Authorization Reference)."""
    for kind, name in ((ENDPOINT, endpoint), (INFERENCE_COMPONENT, component)):
        if name:
            row = context.table(kind.table, region).get(name)
            arn = arn_of(context, region, kind, name)
            yield AccessRequest(f"sagemaker:{operation}", arn, _resource_tags(row))


def _sagemaker(emulator: EmulatorContext, request: ApiRequest) -> Iterator[AccessRequest]:
    action, params = f"sagemaker:{request.operation}", request.params
    for arn in _arns(emulator, request):
        found = by_arn(emulator, arn)
        context = {**_request_tags(params), **_resource_tags(found[3] if found else None)}
        yield AccessRequest(action, arn, context)
    if request.operation.startswith("Create") and params.get("Tags"):
        yield AccessRequest("sagemaker:AddTags", next(_arns(emulator, request)), _request_tags(params))
    if request.operation == "DeleteEndpoint" and scaled_variants(
        emulator, request.region, params["EndpointName"]
    ):
        yield AccessRequest("application-autoscaling:DeregisterScalableTarget", "*", refusal=_SCALED)
    role = params.get("ExecutionRoleArn") or params.get("RoleArn")
    if role:
        yield AccessRequest("iam:PassRole", role, {"iam:passedtoservice": "sagemaker.amazonaws.com"})


def _arns(context: EmulatorContext, request: ApiRequest) -> Iterator[str]:
    """The resources of a call; for lists, all."""
    if request.operation.startswith("List") and request.operation != "ListTags":
        yield "*"
        return
    if "ResourceArn" in request.params:
        yield request.params["ResourceArn"]
    for name, kind in NAMES.items():
        if name in request.params:
            yield arn_of(context, request.region, kind, request.params[name])


def _request_tags(params: Mapping[str, Any]) -> dict[str, str]:
    tags = tags_of(params)
    description = {f"aws:requesttag/{key.lower()}": value for key, value in tags.items()}
    keys = [*tags, *params.get("TagKeys", ())]
    return {**description, "aws:tagkeys": "\n".join(keys)} if keys else description


def _resource_tags(row: Row | None) -> dict[str, str]:
    tags = (row or {}).get("tags", {})
    pairs = [(key.lower(), value) for key, value in tags.items()]
    return {f"{prefix}:resourcetag/{key}": value for prefix in ("aws", "sagemaker") for key, value in pairs}


def _scaling(context: EmulatorContext, request: ApiRequest) -> Iterator[AccessRequest]:
    """Application Auto Scaling acts in its caller's name: on the variant, on the alarms, once to create
    its own role.
    """
    resource = str(request.params.get("ResourceId", ""))
    alarms = context.arn("cloudwatch", request.region, f"alarm:TargetTracking-{resource}-AlarmHigh")
    if request.operation == "RegisterScalableTarget":
        target = context.arn("sagemaker", request.region, "/".join(resource.split("/")[:2]))
        if component_of(resource):
            yield AccessRequest("sagemaker:DescribeInferenceComponent", target)
            yield AccessRequest("sagemaker:UpdateInferenceComponentRuntimeConfig", target)
        else:
            yield AccessRequest("sagemaker:DescribeEndpoint", target)
            yield AccessRequest("sagemaker:UpdateEndpointWeightsAndCapacities", target)
        if not _has_role(context.account):
            role = f"role/aws-service-role/{SCALES}/{SCALING_ROLE}"
            yield AccessRequest(
                "iam:CreateServiceLinkedRole",
                f"arn:aws:iam::{context.account}:{role}",
                {"iam:awsservicename": SCALES},
            )
    elif request.operation == "PutScalingPolicy":
        yield AccessRequest("cloudwatch:DescribeAlarms", alarms)
        yield AccessRequest("cloudwatch:PutMetricAlarm", alarms)
    elif request.operation == "DeleteScalingPolicy":
        policies = [row["params"] for _, row in context.table(POLICIES, request.region).rows()]
        named = (request.params.get("ResourceId"), request.params.get("PolicyName"))
        if any((policy["ResourceId"], policy["PolicyName"]) == named for policy in policies):
            yield AccessRequest("cloudwatch:DeleteAlarms", alarms)


def link_scaling(context: EmulatorContext, request: ApiRequest) -> None:
    """Creates the role that AWS creates at the first scaling of an account."""
    if request.operation == "RegisterScalableTarget" and not _has_role(context.account):
        statement = {"Effect": "Allow", "Principal": {"Service": SCALES}, "Action": "sts:AssumeRole"}
        iam_backend(context.account).create_role(
            SCALING_ROLE,
            json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
            f"/aws-service-role/{SCALES}/",
            permissions_boundary=None,
            description="",
            tags=[],
            max_session_duration="3600",
            linked_service=SCALES,
        )


def _has_role(account: str) -> bool:
    return any(role.name == SCALING_ROLE for role in iam_backend(account).roles.values())


def _resource(context: EmulatorContext, service: str, request: ApiRequest) -> str:
    params = request.params
    if service == "logs" and request.operation != "DescribeLogGroups":
        name = str(params.get("logGroupName") or params.get("logGroupIdentifier") or "")
        name = name.split(":log-group:")[-1].removesuffix(":*")
        last = f"log-stream:{params['logStreamName']}" if "logStreamName" in params else "*"
        return context.arn("logs", request.region, f"log-group:{name}:{last}")
    if service == "logs":
        return context.arn("logs", request.region, "log-group:*")
    if service == "cloudwatch" and (
        name := params.get("AlarmName") or "".join(params.get("AlarmNames", ())[:1])
    ):
        return context.arn("cloudwatch", request.region, f"alarm:{name}")
    if service == "cloudwatch" and (
        name := params.get("DashboardName") or "".join(params.get("DashboardNames", ())[:1])
    ):
        return context.arn("cloudwatch", "", f"dashboard/{name}")
    if service == "scheduler":
        group = params.get("GroupName", "default")
        return context.arn("scheduler", request.region, f"schedule/{group}/{params['Name']}")
    if service == "application-autoscaling" and not request.operation.startswith("Describe"):
        return context.arn("application-autoscaling", request.region, "scalable-target/*")
    return "*"
