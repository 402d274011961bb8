"""CreateEndpoint and its kin: what is accepted, and what is told. What then happens is hosting's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Ask, Operation, World
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.capacities import in_progress, set_capacities, settled_endpoint, touch
from lmi_deploy.emulator.sagemaker.components import components_of
from lmi_deploy.emulator.sagemaker.deployments import described, retain, snapshot
from lmi_deploy.emulator.sagemaker.lists import page
from lmi_deploy.emulator.sagemaker.naming import ENDPOINT, ENDPOINT_CONFIG, found, require_new
from lmi_deploy.emulator.sagemaker.records import new_row
from lmi_deploy.emulator.scaling.resources import scaled_variants
from lmi_deploy.emulator.scaling.targets import forget_endpoint
from lmi_deploy.emulator.services.quotas import require_quota
from lmi_deploy.emulator.wire.errors import refused


def create_endpoint(world: World, ask: Ask) -> Mapping[str, Any]:
    params = ask.params
    name = params["EndpointName"]
    arn = require_new(world, ask, ENDPOINT, name)
    pending = snapshot(world, ask, params["EndpointConfigName"])
    require_quota(world, ask.region, pending)
    guard = params.get("DeploymentConfig")
    row = new_row(
        world, ask, arn, status="Creating", failure=None, serving=None, pending=pending, guard=guard
    )
    world.table(ENDPOINT.table, ask.region).put(name, row)
    world.hosting.begin(ask.region, name)
    return {"EndpointArn": arn}


def describe_endpoint(world: World, ask: Ask) -> Mapping[str, Any]:
    name = ask.params["EndpointName"]
    row = found(world, ask, ENDPOINT, name)
    shown = row["serving"] or row["pending"]
    told = {
        "EndpointName": name,
        "EndpointArn": row["arn"],
        "EndpointConfigName": shown["config"],
        "EndpointStatus": row["status"],
        "FailureReason": row["failure"],
        "CreationTime": row["created"],
        "LastModifiedTime": row["modified"],
        "LastDeploymentConfig": row["guard"],
        "AsyncInferenceConfig": shown["async"],
        "PendingDeploymentSummary": _pending(row),
    }
    if row["serving"]:
        told["ProductionVariants"] = [described(variant) for variant in row["serving"]["variants"]]
        shadows = [described(variant) for variant in row["serving"]["shadows"]]
        told["ShadowProductionVariants"] = shadows or None
    return told


def _pending(row: Row) -> Row | None:
    pending = row["pending"]
    if pending is None or row["status"] not in ("Updating", "Creating"):
        return None
    return {
        "EndpointConfigName": pending["config"],
        "ProductionVariants": [described(variant, pending=True) for variant in pending["variants"]],
        "StartTime": pending["began"],
    }


def list_endpoints(world: World, ask: Ask) -> Mapping[str, Any]:
    rows, token = page(world.table(ENDPOINT.table, ask.region).rows(), ask.params)
    told = [
        {
            "EndpointName": name,
            "EndpointArn": row["arn"],
            "CreationTime": row["created"],
            "LastModifiedTime": row["modified"],
            "EndpointStatus": row["status"],
        }
        for name, row in rows
    ]
    return {"Endpoints": told, "NextToken": token or None}


def update_endpoint(world: World, ask: Ask) -> Mapping[str, Any]:
    params = ask.params
    name = params["EndpointName"]
    row = settled_endpoint(world, ask.region, name)
    # A configuration that serves and was deleted makes its endpoint impossible to update.
    found(world, ask, ENDPOINT_CONFIG, row["serving"]["config"])
    pending = snapshot(world, ask, params["EndpointConfigName"])
    guard = _guard(world, ask, row)
    excluded = [item["VariantPropertyType"] for item in params.get("ExcludeRetainedVariantProperties", ())]
    if params.get("RetainAllVariantProperties"):
        retain(pending, row["serving"], excluded=excluded)
    elif excluded:
        raise refused("ExcludeRetainedVariantProperties requires RetainAllVariantProperties to be true.")
    _require_same_types(world, ask, row["serving"], pending)
    require_quota(world, ask.region, pending)
    row.update(status="Updating", pending=pending, failure=None, guard=guard)
    touch(world, ask.region, name, row)
    return {"EndpointArn": row["arn"]}


def _require_same_types(world: World, ask: Ask, old: Row, new: Row) -> None:
    """A variant that is scaled automatically keeps its instance type."""
    before = {variant["name"]: variant["params"].get("InstanceType") for variant in old["variants"]}
    scaled = scaled_variants(world, ask.region, ask.params["EndpointName"])
    for variant in new["variants"]:
        name = variant["name"]
        if name in scaled and variant["params"].get("InstanceType") != before.get(name):
            raise refused(
                f"Cannot update the instance type of variant {name}: it has a scalable target registered. "
                "Deregister the scalable target first."
            )


def _guard(world: World, ask: Ask, row: Row) -> Row | None:
    """The deployment policy of this update; an alarm that it names must be there."""
    params = ask.params
    guard: Row | None = params.get("DeploymentConfig")
    if params.get("RetainDeploymentConfig"):
        if guard:
            raise refused("DeploymentConfig cannot be specified when RetainDeploymentConfig is true.")
        guard = row["guard"]
        return guard
    if guard and "BlueGreenUpdatePolicy" in guard and "RollingUpdatePolicy" in guard:
        raise refused("Only one of BlueGreenUpdatePolicy and RollingUpdatePolicy can be specified.")
    for alarm in alarms_of(guard):
        if world.alarms.ringing(ask.region, alarm) is None:
            raise refused(f'Could not find alarm "{alarm}".')
    return guard


def alarms_of(guard: Row | None) -> list[str]:
    rollback = (guard or {}).get("AutoRollbackConfiguration") or {}
    return [alarm["AlarmName"] for alarm in rollback.get("Alarms", ())]


def update_weights_and_capacities(world: World, ask: Ask) -> Mapping[str, Any]:
    wanted = {one["VariantName"]: one for one in ask.params["DesiredWeightsAndCapacities"]}
    row = set_capacities(world, ask.region, ask.params["EndpointName"], wanted)
    return {"EndpointArn": row["arn"]}


def delete_endpoint(world: World, ask: Ask) -> None:
    name = ask.params["EndpointName"]
    row = found(world, ask, ENDPOINT, name)
    if row["status"] in ("Creating", "Deleting"):
        raise in_progress(row)
    held = sorted(components_of(world, ask.region, name))
    if held:
        raise refused(
            f'Endpoint "{row["arn"]}" has inference components attached: {", ".join(held)}. Delete them first.'
        )
    row["status"] = "Deleting"
    forget_endpoint(world, ask.region, name)
    touch(world, ask.region, name, row)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateEndpoint": create_endpoint,
    "DescribeEndpoint": describe_endpoint,
    "ListEndpoints": list_endpoints,
    "UpdateEndpoint": update_endpoint,
    "UpdateEndpointWeightsAndCapacities": update_weights_and_capacities,
    "DeleteEndpoint": delete_endpoint,
}
