"""Which rights a call needs: action, resource and the conditions' context, call by call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, tags_of
from lmi_deploy.emulator.iam.implied_permissions import hosting_permissions, scaling_permissions
from lmi_deploy.emulator.iam.policy_evaluation import Request
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.naming import (
    ENDPOINT,
    ENDPOINT_CONFIG,
    INFERENCE_COMPONENT,
    MODEL,
    OPTIMIZATION_JOB,
    PROCESSING_JOB,
    arn_of,
    by_arn,
)
from lmi_deploy.emulator.scaling.resources import scaled_variants

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

_SCALED: Final = (
    "An Application AutoScaling scalable target exists for a variant being deleted, and the IAM identity used to "
    "invoke DeleteEndpoint does not have application-autoscaling:DeregisterScalableTarget permission to "
    "deregister the scalable target."
)


def required_rights(context: EmulatorContext, service: str, request: ApiRequest) -> Iterator[Request]:
    """All must be allowed."""
    if service == "sagemaker":
        yield from _sagemaker(context, request)
        yield from hosting_permissions(context, request)
        return
    action = f"{PREFIXES.get(service, service)}:{request.operation}"
    yield Request(action, _resource(context, service, request))
    if service == "application-autoscaling":
        yield from scaling_permissions(context, request)


def invoking(context: EmulatorContext, region: str, operation: str, endpoint: str) -> Request:
    row = context.table(ENDPOINT.table, region).get(endpoint)
    arn = arn_of(context, region, ENDPOINT, endpoint)
    return Request(f"sagemaker:{operation}", arn, _resource_tags(row))


def _sagemaker(emulator: EmulatorContext, request: ApiRequest) -> Iterator[Request]:
    action, params = f"sagemaker:{request.operation}", request.params
    for arn in _arns(emulator, request):
        found = by_arn(emulator, arn)
        context = {**_request_tags(params), **_resource_tags(found[3] if found else None)}
        yield Request(action, arn, context)
    if request.operation.startswith("Create") and params.get("Tags"):
        yield Request("sagemaker:AddTags", next(_arns(emulator, request)), _request_tags(params))
    if request.operation == "DeleteEndpoint" and scaled_variants(
        emulator, request.region, params["EndpointName"]
    ):
        yield Request("application-autoscaling:DeregisterScalableTarget", "*", refusal=_SCALED)
    role = params.get("ExecutionRoleArn") or params.get("RoleArn")
    if role:
        yield Request("iam:PassRole", role, {"iam:passedtoservice": "sagemaker.amazonaws.com"})


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


def _resource(context: EmulatorContext, service: str, request: ApiRequest) -> str:
    params = request.params
    if service == "logs" and request.operation != "DescribeLogGroups":
        name = str(params.get("logGroupName") or params.get("logGroupIdentifier") or "")
        name = name.split(":log-group:")[-1].removesuffix(":*")
        last = f"log-stream:{params['logStreamName']}" if "logStreamName" in params else "*"
        return context.arn("logs", request.region, f"log-group:{name}:{last}")
    if service == "logs":
        return context.arn("logs", request.region, "log-group:*")
    if service == "cloudwatch" and "AlarmName" in params:
        return context.arn("cloudwatch", request.region, f"alarm:{params['AlarmName']}")
    if service == "application-autoscaling" and not request.operation.startswith("Describe"):
        return context.arn("application-autoscaling", request.region, "scalable-target/*")
    return "*"
