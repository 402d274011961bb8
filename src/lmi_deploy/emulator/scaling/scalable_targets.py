"""RegisterScalableTarget, PutScalingPolicy and related operations."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.scaling import scheduled_actions
from lmi_deploy.emulator.scaling.scaled_components import COPIES, component_of
from lmi_deploy.emulator.scaling.scaled_variants import (
    COUNT,
    POLICIES,
    TARGETS,
    clamp,
    describe_activities,
    matching,
    missing,
    name_of,
    scaled,
)
from lmi_deploy.emulator.scaling.scheduled_actions import drop_actions
from lmi_deploy.emulator.scaling.step_adjustments import check_steps
from lmi_deploy.emulator.services import tag_operations
from lmi_deploy.emulator.services.alarms import TABLE as ALARMS
from lmi_deploy.emulator.wire.errors import ApiError, refused

_PREDEFINED: Final[Mapping[str, Mapping[str, str]]] = {
    COUNT: {
        "SageMakerVariantInvocationsPerInstance": "InvocationsPerInstance",
        "SageMakerVariantConcurrentRequestsPerModelHighResolution": "ConcurrentRequestsPerModel",
    },
    COPIES: {
        "SageMakerInferenceComponentInvocationsPerCopy": "InvocationsPerCopy",
        "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": "ConcurrentRequestsPerCopy",
    },
}
"""By scalable dimension, the metric of each predefined type."""
HIGH_RESOLUTION: Final = 10
"""Seconds between two values of concurrent requests, which AWS added on 2024-07-25. It does not document statistic and
periods of the alarms: here they use the average, and removing instances takes as long as by other metrics.
"""
MOST_POLICIES: Final = 50
"""Of a scalable target (Application Auto Scaling user guide, "Quotas")."""
LOW: Final = 0.9
"""A count is taken down when the metric is below this part of the target."""
PERIODS: Final = {"High": 3, "Low": 15}
_COMPARISONS: Final = {"High": "GreaterThanThreshold", "Low": "LessThanThreshold"}


def _policy_name(params: Mapping[str, Any]) -> str:
    return f"{name_of(params)}:{params['PolicyName']}"


def _hash(name: str) -> str:
    return digest({"name": name})[:22]


def put_policy(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params, name = request.params, _policy_name(request.params)
    if context.table(TARGETS, request.region).get(name_of(params)) is None:
        raise ApiError(
            "ObjectNotFoundException",
            "No scalable target registered for service namespace: {ServiceNamespace}, resource ID: {ResourceId}, "
            "scalable dimension: {ScalableDimension}".format(**params),
        )
    kept = {"PolicyType": "StepScaling", **params}
    before = context.table(POLICIES, request.region).get(name) or {}
    if not before:
        _require_room(context, request)
    if kept["PolicyType"] == "StepScaling":
        check_steps(kept.get("StepScalingPolicyConfiguration") or {})
    path = f"{_hash(name)}:resource/sagemaker/{params['ResourceId']}:policyName/{params['PolicyName']}"
    row: Row = {
        "arn": before.get("arn") or context.arn("autoscaling", request.region, f"scalingPolicy:{path}"),
        "created": before.get("created", context.clock.now()),
        "params": kept,
        "alarms": before.get("alarms") or _alarm_names(kept),
    }
    for level, alarm in row["alarms"].items():
        _put_alarm(context, request.region, alarm, row, level)
    context.table(POLICIES, request.region).put(name, row)
    return {"PolicyARN": row["arn"], "Alarms": list(_alarms(context, request.region, row))}


def _require_room(context: EmulatorContext, request: ApiRequest) -> None:
    policies = context.table(POLICIES, request.region).rows()
    if sum(name_of(row["params"]) == name_of(request.params) for _, row in policies) >= MOST_POLICIES:
        raise ApiError(
            "LimitExceededException",
            f"Scaling policy limit exceeded. You can have at most {MOST_POLICIES} scaling policies per target.",
        )


def describe_policies(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    names = request.params.get("PolicyNames")
    return {
        "ScalingPolicies": [
            {
                **row["params"],
                "PolicyARN": row["arn"],
                "CreationTime": row["created"],
                "Alarms": list(_alarms(context, request.region, row)),
            }
            for _, row in matching(context, request, POLICIES)
            if names is None or row["params"]["PolicyName"] in names
        ]
    }


def delete_policy(context: EmulatorContext, request: ApiRequest) -> None:
    if context.table(POLICIES, request.region).get(_policy_name(request.params)) is None:
        raise missing("scaling policy", request.params)
    drop_policy(context, request.region, _policy_name(request.params))


def drop_policy(context: EmulatorContext, region: str, name: str) -> None:
    row = context.table(POLICIES, region).drop(name)
    for alarm in (row or {}).get("alarms", {}).values():
        context.table(ALARMS, region).drop(alarm)


def _alarm_names(params: Mapping[str, Any]) -> dict[str, str]:
    """By level; none but of target tracking."""
    if params["PolicyType"] != "TargetTrackingScaling":
        return {}
    tracking = params.get("TargetTrackingScalingPolicyConfiguration", {})
    levels = [level for level in PERIODS if level == "High" or not tracking.get("DisableScaleIn")]
    return {level: f"TargetTracking-{params['ResourceId']}-Alarm{level}-{uuid.uuid4()}" for level in levels}


def _put_alarm(context: EmulatorContext, region: str, alarm: str, policy: Row, level: str) -> None:
    params = policy["params"]
    target = float(params["TargetTrackingScalingPolicyConfiguration"]["TargetValue"])
    description = {
        "AlarmName": alarm,
        "AlarmDescription": f"DO NOT EDIT OR DELETE. For TargetTrackingScaling policy {policy['arn']}.",
        "AlarmActions": [policy["arn"]],
        "EvaluationPeriods": PERIODS[level],
        "Period": 60,
        "Threshold": target if level == "High" else target * LOW,
        "ComparisonOperator": _COMPARISONS[level],
        **_metric(params, level),
    }
    row = context.table(ALARMS, region).get(alarm) or {
        "arn": context.arn("cloudwatch", region, f"alarm:{alarm}"),
        "tags": {},
        "state": "INSUFFICIENT_DATA",
        "reason": "Unchecked: Initial alarm creation",
        "changed": context.clock.now(),
    }
    context.table(ALARMS, region).put(alarm, {**row, "params": description})


def _metric(params: Mapping[str, Any], level: str) -> dict[str, Any]:
    """The metric of a policy, in the form of an alarm."""
    tracking = params["TargetTrackingScalingPolicyConfiguration"]
    custom = tracking.get("CustomizedMetricSpecification")
    if custom is not None:
        if "MetricName" not in custom:
            raise refused("The emulator does not calculate metric expressions.")
        return {
            key: custom[key]
            for key in ("MetricName", "Namespace", "Dimensions", "Statistic")
            if key in custom
        }
    kind = tracking.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    metrics = _PREDEFINED[params["ScalableDimension"]]
    if kind not in metrics:
        raise refused(
            f"Invalid predefined metric type {kind} for scalable dimension {params['ScalableDimension']}"
        )
    name = metrics[kind]
    pace: dict[str, Any] = {"MetricName": name, "Statistic": "Sum"}
    if name.startswith("Concurrent"):
        pace = {"MetricName": name, "Statistic": "Average", "Period": HIGH_RESOLUTION}
        if level == "Low":
            pace["EvaluationPeriods"] = PERIODS[level] * 60 // HIGH_RESOLUTION
    return {**pace, "Namespace": "AWS/SageMaker", "Dimensions": _dimensions(params["ResourceId"])}


def _dimensions(resource: str) -> list[dict[str, str]]:
    if component := component_of(resource):
        return [{"Name": "InferenceComponentName", "Value": component}]
    _, endpoint, _, variant = resource.split("/")
    return [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": variant}]


def _alarms(context: EmulatorContext, region: str, row: Row) -> Iterator[Row]:
    for alarm in row["alarms"].values():
        yield {"AlarmName": alarm, "AlarmARN": context.arn("cloudwatch", region, f"alarm:{alarm}")}


def register(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params, name = request.params, name_of(request.params)
    variant = scaled(context, request.region, params)
    before = context.table(TARGETS, request.region).get(name)
    if before is None and not {"MinCapacity", "MaxCapacity"} <= set(params):
        raise refused("MinCapacity and MaxCapacity are required when a new scalable target is registered.")
    kept = {**(before or {}).get("params", {}), **{k: v for k, v in params.items() if k != "Tags"}}
    if kept["MinCapacity"] > kept["MaxCapacity"]:
        raise refused("Maximum capacity cannot be less than minimum capacity")
    row = before or {
        "arn": context.arn("application-autoscaling", request.region, f"scalable-target/{_hash(name)}"),
        "created": context.clock.now(),
        "tags": tag_operations.initial_tags(request),
    }
    context.table(TARGETS, request.region).put(name, {**row, "params": kept})
    clamp(context, request.region, variant, kept)
    return {"ScalableTargetARN": row["arn"]}


def describe_targets(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    ids = request.params.get("ResourceIds")
    return {
        "ScalableTargets": [
            {**row["params"], "ScalableTargetARN": row["arn"], "CreationTime": row["created"]}
            for _, row in matching(context, request, TARGETS)
            if ids is None or row["params"]["ResourceId"] in ids
        ]
    }


def deregister(context: EmulatorContext, request: ApiRequest) -> None:
    if context.table(TARGETS, request.region).get(name_of(request.params)) is None:
        raise missing("scalable target", request.params)
    drop_target(context, request.region, name_of(request.params))


def drop_target(context: EmulatorContext, region: str, name: str) -> None:
    """With its scheduled actions and its policies, and they with their alarms."""
    context.table(TARGETS, region).drop(name)
    drop_actions(context, region, name)
    for policy, row in context.table(POLICIES, region).rows():
        if name_of(row["params"]) == name:
            drop_policy(context, region, policy)


def forget_endpoint(context: EmulatorContext, region: str, endpoint: str) -> None:
    """SageMaker deregisters the targets of an endpoint that is deleted."""
    for name, row in context.table(TARGETS, region).rows():
        if row["params"]["ResourceId"].startswith(f"endpoint/{endpoint}/"):
            drop_target(context, region, name)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "RegisterScalableTarget": register,
    "DescribeScalableTargets": describe_targets,
    "DeregisterScalableTarget": deregister,
    "DescribeScalingActivities": describe_activities,
    "PutScalingPolicy": put_policy,
    "DescribeScalingPolicies": describe_policies,
    "DeleteScalingPolicy": delete_policy,
    **scheduled_actions.OPERATIONS,
    **tag_operations.operations(TARGETS),
}
