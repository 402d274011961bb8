"""Which rights a call needs: action, resource and the conditions' context, call by call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Ask, World, tags_of
from lmi_deploy.emulator.iam.implied_permissions import behind_hosting, behind_scaling
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


def required_rights(world: World, service: str, ask: Ask) -> Iterator[Request]:
    """All must be allowed."""
    if service == "sagemaker":
        yield from _sagemaker(world, ask)
        yield from behind_hosting(world, ask)
        return
    action = f"{PREFIXES.get(service, service)}:{ask.operation}"
    yield Request(action, _resource(world, service, ask))
    if service == "application-autoscaling":
        yield from behind_scaling(world, ask)


def invoking(world: World, region: str, operation: str, endpoint: str) -> Request:
    row = world.table(ENDPOINT.table, region).get(endpoint)
    arn = arn_of(world, region, ENDPOINT, endpoint)
    return Request(f"sagemaker:{operation}", arn, _resource_tags(row))


def _sagemaker(world: World, ask: Ask) -> Iterator[Request]:
    action, params = f"sagemaker:{ask.operation}", ask.params
    for arn in _arns(world, ask):
        found = by_arn(world, arn)
        context = {**_request_tags(params), **_resource_tags(found[3] if found else None)}
        yield Request(action, arn, context)
    if ask.operation.startswith("Create") and params.get("Tags"):
        yield Request("sagemaker:AddTags", next(_arns(world, ask)), _request_tags(params))
    if ask.operation == "DeleteEndpoint" and scaled_variants(world, ask.region, params["EndpointName"]):
        yield Request("application-autoscaling:DeregisterScalableTarget", "*", refusal=_SCALED)
    role = params.get("ExecutionRoleArn") or params.get("RoleArn")
    if role:
        yield Request("iam:PassRole", role, {"iam:passedtoservice": "sagemaker.amazonaws.com"})


def _arns(world: World, ask: Ask) -> Iterator[str]:
    """The resources of a call; for lists, all."""
    if ask.operation.startswith("List") and ask.operation != "ListTags":
        yield "*"
        return
    if "ResourceArn" in ask.params:
        yield ask.params["ResourceArn"]
    for name, kind in NAMES.items():
        if name in ask.params:
            yield arn_of(world, ask.region, kind, ask.params[name])


def _request_tags(params: Mapping[str, Any]) -> dict[str, str]:
    tags = tags_of(params)
    told = {f"aws:requesttag/{key.lower()}": value for key, value in tags.items()}
    keys = [*tags, *params.get("TagKeys", ())]
    return {**told, "aws:tagkeys": "\n".join(keys)} if keys else told


def _resource_tags(row: Row | None) -> dict[str, str]:
    tags = (row or {}).get("tags", {})
    pairs = [(key.lower(), value) for key, value in tags.items()]
    return {f"{prefix}:resourcetag/{key}": value for prefix in ("aws", "sagemaker") for key, value in pairs}


def _resource(world: World, service: str, ask: Ask) -> str:
    params = ask.params
    if service == "logs" and ask.operation != "DescribeLogGroups":
        name = str(params.get("logGroupName") or params.get("logGroupIdentifier") or "")
        name = name.split(":log-group:")[-1].removesuffix(":*")
        last = f"log-stream:{params['logStreamName']}" if "logStreamName" in params else "*"
        return world.arn("logs", ask.region, f"log-group:{name}:{last}")
    if service == "logs":
        return world.arn("logs", ask.region, "log-group:*")
    if service == "cloudwatch" and "AlarmName" in params:
        return world.arn("cloudwatch", ask.region, f"alarm:{params['AlarmName']}")
    if service == "application-autoscaling" and not ask.operation.startswith("Describe"):
        return world.arn("application-autoscaling", ask.region, "scalable-target/*")
    return "*"
