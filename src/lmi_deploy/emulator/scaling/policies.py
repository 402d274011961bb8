"""PutScalingPolicy and related operations. A target tracking policy has two alarms, created and deleted with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.scaling.naming import (
    POLICIES,
    TARGETS,
    matching,
    missing,
    name_of,
    policy_name,
    refused,
    stamp,
)
from lmi_deploy.emulator.services.cloudwatch import TABLE as ALARMS
from lmi_deploy.emulator.wire.errors import ApiError

INVOCATIONS: Final = "SageMakerVariantInvocationsPerInstance"
LOW: Final = 0.9
"""A count is taken down when the metric is below this part of the target."""
PERIODS: Final = {"High": 3, "Low": 15}
_COMPARISONS: Final = {"High": "GreaterThanThreshold", "Low": "LessThanThreshold"}


def put_policy(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params, name = request.params, policy_name(request.params)
    if context.table(TARGETS, request.region).get(name_of(params)) is None:
        raise ApiError(
            "ObjectNotFoundException",
            "No scalable target registered for service namespace: {ServiceNamespace}, resource ID: {ResourceId}, "
            "scalable dimension: {ScalableDimension}".format(**params),
        )
    kept = {"PolicyType": "StepScaling", **params}
    before = context.table(POLICIES, request.region).get(name) or {}
    row: Row = {
        "arn": before.get("arn") or _arn(context, request, name),
        "created": before.get("created", context.clock.now()),
        "params": kept,
        "alarms": before.get("alarms") or _alarm_names(kept),
    }
    for level, alarm in row["alarms"].items():
        _put_alarm(context, request.region, alarm, row, level)
    context.table(POLICIES, request.region).put(name, row)
    return {"PolicyARN": row["arn"], "Alarms": list(_alarms(context, request.region, row))}


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
    if context.table(POLICIES, request.region).get(policy_name(request.params)) is None:
        raise missing("scaling policy", request.params)
    drop_policy(context, request.region, policy_name(request.params))


def drop_policy(context: EmulatorContext, region: str, name: str) -> None:
    row = context.table(POLICIES, region).drop(name)
    for alarm in (row or {}).get("alarms", {}).values():
        context.table(ALARMS, region).drop(alarm)


def _arn(context: EmulatorContext, request: ApiRequest, name: str) -> str:
    resource, policy = request.params["ResourceId"], request.params["PolicyName"]
    return context.arn(
        "autoscaling",
        request.region,
        f"scalingPolicy:{stamp(name)}:resource/sagemaker/{resource}:policyName/{policy}",
    )


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
        **_metric(params),
    }
    row = context.table(ALARMS, region).get(alarm) or {
        "state": "INSUFFICIENT_DATA",
        "reason": "Unchecked: Initial alarm creation",
        "changed": context.clock.now(),
    }
    context.table(ALARMS, region).put(alarm, {**row, "params": description})


def _metric(params: Mapping[str, Any]) -> dict[str, Any]:
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
    if kind != INVOCATIONS:
        raise refused(
            f"Invalid predefined metric type {kind} for scalable dimension {params['ScalableDimension']}"
        )
    _, endpoint, _, variant = params["ResourceId"].split("/")
    return {
        "MetricName": "InvocationsPerInstance",
        "Namespace": "AWS/SageMaker",
        "Dimensions": [
            {"Name": "EndpointName", "Value": endpoint},
            {"Name": "VariantName", "Value": variant},
        ],
        "Statistic": "Sum",
    }


def _alarms(context: EmulatorContext, region: str, row: Row) -> Iterator[Row]:
    for alarm in row["alarms"].values():
        yield {"AlarmName": alarm, "AlarmARN": context.arn("cloudwatch", region, f"alarm:{alarm}")}


OPERATIONS: Final[Mapping[str, Operation]] = {
    "PutScalingPolicy": put_policy,
    "DescribeScalingPolicies": describe_policies,
    "DeleteScalingPolicy": delete_policy,
}
