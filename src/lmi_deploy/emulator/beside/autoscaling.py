"""Application Auto Scaling for endpoint variants: targets and policies are kept and told, nothing is scaled by them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.store import Row
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.world import Ask, Operation, World

TARGETS: Final = "scalable-targets"
POLICIES: Final = "scaling-policies"
COUNT: Final = "sagemaker:variant:DesiredInstanceCount"
_RESOURCE: Final = re.compile(r"endpoint/(?P<endpoint>[^/]+)/variant/(?P<variant>[^/]+)")
_NAMED: Final = ("ServiceNamespace", "ResourceId", "ScalableDimension")


def register(world: World, ask: Ask) -> Mapping[str, Any]:
    params, name = ask.params, _name(ask.params)
    _require_variant(world, ask)
    before = world.table(TARGETS, ask.region).get(name)
    if before is None and not {"MinCapacity", "MaxCapacity"} <= set(params):
        raise _refused("MinCapacity and MaxCapacity are required when a new scalable target is registered.")
    kept = {**(before or {}).get("params", {}), **{k: v for k, v in params.items() if k != "Tags"}}
    if kept["MinCapacity"] > kept["MaxCapacity"]:
        raise _refused("Maximum capacity cannot be less than minimum capacity")
    row = before or {
        "arn": world.arn("application-autoscaling", ask.region, f"scalable-target/{_stamp(name)}"),
        "created": world.clock.now(),
    }
    world.table(TARGETS, ask.region).put(name, {**row, "params": kept})
    return {"ScalableTargetARN": row["arn"]}


def describe_targets(world: World, ask: Ask) -> Mapping[str, Any]:
    ids = ask.params.get("ResourceIds")
    return {
        "ScalableTargets": [
            {**row["params"], "ScalableTargetARN": row["arn"], "CreationTime": row["created"]}
            for row in _matching(world, ask, TARGETS)
            if ids is None or row["params"]["ResourceId"] in ids
        ]
    }


def deregister(world: World, ask: Ask) -> None:
    if world.table(TARGETS, ask.region).drop(_name(ask.params)) is None:
        raise _missing("scalable target", ask)
    for name, row in world.table(POLICIES, ask.region).rows():
        if _name(row["params"]) == _name(ask.params):
            world.table(POLICIES, ask.region).drop(name)


def put_policy(world: World, ask: Ask) -> Mapping[str, Any]:
    if world.table(TARGETS, ask.region).get(_name(ask.params)) is None:
        raise ApiError(
            "ObjectNotFoundException",
            "No scalable target registered for service namespace: {}, resource ID: {}, scalable dimension: "
            "{}".format(*(ask.params[key] for key in _NAMED)),
        )
    name = f"{_name(ask.params)}:{ask.params['PolicyName']}"
    arn = world.arn(
        "autoscaling",
        ask.region,
        f"scalingPolicy:{_stamp(name)}:resource/sagemaker/{ask.params['ResourceId']}:policyName/"
        f"{ask.params['PolicyName']}",
    )
    row = {"arn": arn, "created": world.clock.now(), "params": {"PolicyType": "StepScaling", **ask.params}}
    world.table(POLICIES, ask.region).put(name, row)
    return {"PolicyARN": arn, "Alarms": []}


def describe_policies(world: World, ask: Ask) -> Mapping[str, Any]:
    names = ask.params.get("PolicyNames")
    return {
        "ScalingPolicies": [
            {**row["params"], "PolicyARN": row["arn"], "CreationTime": row["created"], "Alarms": []}
            for row in _matching(world, ask, POLICIES)
            if names is None or row["params"]["PolicyName"] in names
        ]
    }


def delete_policy(world: World, ask: Ask) -> None:
    name = f"{_name(ask.params)}:{ask.params['PolicyName']}"
    if world.table(POLICIES, ask.region).drop(name) is None:
        raise _missing("scaling policy", ask)


def forget_endpoint(world: World, region: str, endpoint: str) -> None:
    """SageMaker deregisters the targets of an endpoint that is deleted."""
    for table in (TARGETS, POLICIES):
        for name, row in world.table(table, region).rows():
            if row["params"]["ResourceId"].startswith(f"endpoint/{endpoint}/"):
                world.table(table, region).drop(name)


def scaled_variants(world: World, region: str, endpoint: str) -> set[str]:
    """The variants of an endpoint that have a scalable target."""
    found = (
        _RESOURCE.fullmatch(row["params"]["ResourceId"]) for _, row in world.table(TARGETS, region).rows()
    )
    return {match["variant"] for match in found if match and match["endpoint"] == endpoint}


def _require_variant(world: World, ask: Ask) -> None:
    """An endpoint in service that has this variant, as Application Auto Scaling asks SageMaker for."""
    parts = _RESOURCE.fullmatch(ask.params["ResourceId"])
    if ask.params["ServiceNamespace"] != "sagemaker" or ask.params["ScalableDimension"] != COUNT:
        raise _refused("The emulator scales sagemaker variants' DesiredInstanceCount only.")
    row = world.table("endpoints", ask.region).get(parts["endpoint"]) if parts else None
    serving = (row or {}).get("serving") or {"variants": []}
    if parts is None or parts["variant"] not in [variant["name"] for variant in serving["variants"]]:
        raise _refused(f"SageMaker resource not found: {ask.params['ResourceId']}")


def _matching(world: World, ask: Ask, table: str) -> Iterator[Row]:
    for _, row in sorted(world.table(table, ask.region).rows()):
        if all(ask.params.get(key) in (None, row["params"][key]) for key in _NAMED):
            yield row


def _name(params: Mapping[str, Any]) -> str:
    return ":".join(params[key] for key in _NAMED)


def _stamp(name: str) -> str:
    from lmi_deploy.core.naming import digest

    return digest({"name": name})[:22]


def _refused(message: str) -> ApiError:
    return ApiError("ValidationException", message)


def _missing(what: str, ask: Ask) -> ApiError:
    named = ", ".join(ask.params[key] for key in _NAMED)
    return ApiError("ObjectNotFoundException", f"No {what} found for {named}")


OPERATIONS: Final[Mapping[str, Operation]] = {
    "RegisterScalableTarget": register,
    "DescribeScalableTargets": describe_targets,
    "DeregisterScalableTarget": deregister,
    "PutScalingPolicy": put_policy,
    "DescribeScalingPolicies": describe_policies,
    "DeleteScalingPolicy": delete_policy,
}
