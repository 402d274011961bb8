"""RegisterScalableTarget and related operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.scaling.activities import describe_activities, scale
from lmi_deploy.emulator.scaling.naming import POLICIES, TARGETS, matching, missing, name_of, refused, stamp
from lmi_deploy.emulator.scaling.policies import drop_policy
from lmi_deploy.emulator.scaling.resources import Variant
from lmi_deploy.emulator.services import resource_tags


def register(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params, name = request.params, name_of(request.params)
    variant = Variant(context, request.region, params)
    before = context.table(TARGETS, request.region).get(name)
    if before is None and not {"MinCapacity", "MaxCapacity"} <= set(params):
        raise refused("MinCapacity and MaxCapacity are required when a new scalable target is registered.")
    kept = {**(before or {}).get("params", {}), **{k: v for k, v in params.items() if k != "Tags"}}
    if kept["MinCapacity"] > kept["MaxCapacity"]:
        raise refused("Maximum capacity cannot be less than minimum capacity")
    row = before or {
        "arn": context.arn("application-autoscaling", request.region, f"scalable-target/{stamp(name)}"),
        "created": context.clock.now(),
        "tags": resource_tags.initial_tags(request),
    }
    context.table(TARGETS, request.region).put(name, {**row, "params": kept})
    _clamp(context, request.region, variant, kept)
    return {"ScalableTargetARN": row["arn"]}


def _clamp(context: EmulatorContext, region: str, variant: Variant, params: Row) -> None:
    """A count outside of the new limits is moved inside at once."""
    least, most = params["MinCapacity"], params["MaxCapacity"]
    if variant.is_settled and variant.desired < least:
        scale(context, region, params, count=least, cause=f"minimum capacity was set to {least}")
    elif variant.is_settled and variant.desired > most:
        scale(context, region, params, count=most, cause=f"maximum capacity was set to {most}")


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
    """With its policies, and they with their alarms."""
    context.table(TARGETS, region).drop(name)
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
    **resource_tags.operations(TARGETS),
}
