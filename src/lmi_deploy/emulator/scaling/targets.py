"""RegisterScalableTarget and its kin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Ask, Operation, World
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.scaling.activities import describe_activities, scale
from lmi_deploy.emulator.scaling.naming import POLICIES, TARGETS, matching, missing, name_of, refused, stamp
from lmi_deploy.emulator.scaling.policies import drop_policy
from lmi_deploy.emulator.scaling.resources import Variant
from lmi_deploy.emulator.services import resource_tags


def register(world: World, ask: Ask) -> Mapping[str, Any]:
    params, name = ask.params, name_of(ask.params)
    variant = Variant(world, ask.region, params)
    before = world.table(TARGETS, ask.region).get(name)
    if before is None and not {"MinCapacity", "MaxCapacity"} <= set(params):
        raise refused("MinCapacity and MaxCapacity are required when a new scalable target is registered.")
    kept = {**(before or {}).get("params", {}), **{k: v for k, v in params.items() if k != "Tags"}}
    if kept["MinCapacity"] > kept["MaxCapacity"]:
        raise refused("Maximum capacity cannot be less than minimum capacity")
    row = before or {
        "arn": world.arn("application-autoscaling", ask.region, f"scalable-target/{stamp(name)}"),
        "created": world.clock.now(),
        "tags": resource_tags.given(ask),
    }
    world.table(TARGETS, ask.region).put(name, {**row, "params": kept})
    _keep_within(world, ask.region, variant, kept)
    return {"ScalableTargetARN": row["arn"]}


def _keep_within(world: World, region: str, variant: Variant, params: Row) -> None:
    """A count outside of the new bounds is brought inside at once."""
    least, most = params["MinCapacity"], params["MaxCapacity"]
    if variant.is_settled and variant.desired < least:
        scale(world, region, params, count=least, cause=f"minimum capacity was set to {least}")
    elif variant.is_settled and variant.desired > most:
        scale(world, region, params, count=most, cause=f"maximum capacity was set to {most}")


def describe_targets(world: World, ask: Ask) -> Mapping[str, Any]:
    ids = ask.params.get("ResourceIds")
    return {
        "ScalableTargets": [
            {**row["params"], "ScalableTargetARN": row["arn"], "CreationTime": row["created"]}
            for _, row in matching(world, ask, TARGETS)
            if ids is None or row["params"]["ResourceId"] in ids
        ]
    }


def deregister(world: World, ask: Ask) -> None:
    if world.table(TARGETS, ask.region).get(name_of(ask.params)) is None:
        raise missing("scalable target", ask.params)
    drop_target(world, ask.region, name_of(ask.params))


def drop_target(world: World, region: str, name: str) -> None:
    """With its policies, and they with their alarms."""
    world.table(TARGETS, region).drop(name)
    for policy, row in world.table(POLICIES, region).rows():
        if name_of(row["params"]) == name:
            drop_policy(world, region, policy)


def forget_endpoint(world: World, region: str, endpoint: str) -> None:
    """SageMaker deregisters the targets of an endpoint that is deleted."""
    for name, row in world.table(TARGETS, region).rows():
        if row["params"]["ResourceId"].startswith(f"endpoint/{endpoint}/"):
            drop_target(world, region, name)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "RegisterScalableTarget": register,
    "DescribeScalableTargets": describe_targets,
    "DeregisterScalableTarget": deregister,
    "DescribeScalingActivities": describe_activities,
    **resource_tags.operations(TARGETS),
}
