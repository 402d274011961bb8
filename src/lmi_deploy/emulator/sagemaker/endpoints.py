"""CreateEndpoint and related operations: validation and responses; `hosting` carries out the changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.hosting.instance_pools import described_pools, types_of
from lmi_deploy.emulator.hosting.managed_instances import release_instances
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.components import components_of
from lmi_deploy.emulator.sagemaker.containers import containers_of, deployed_image
from lmi_deploy.emulator.sagemaker.resources import (
    ENDPOINT,
    ENDPOINT_CONFIG,
    MODEL,
    found,
    new_row,
    page,
    require_new,
)
from lmi_deploy.emulator.sagemaker.variant_capacities import (
    in_progress,
    set_capacities,
    settled_endpoint,
    touch,
)
from lmi_deploy.emulator.scaling.scalable_targets import forget_endpoint
from lmi_deploy.emulator.scaling.scaled_variants import scaled_variants
from lmi_deploy.emulator.services.alarms import is_ringing
from lmi_deploy.emulator.services.service_quotas import require_quota
from lmi_deploy.emulator.wire.errors import refused


def create_endpoint(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    name = params["EndpointName"]
    arn = require_new(context, request, ENDPOINT, name)
    pending = snapshot(context, request, params["EndpointConfigName"])
    require_quota(context, request.region, pending)
    guard = params.get("DeploymentConfig")
    row = new_row(
        context, request, arn, status="Creating", failure=None, serving=None, pending=pending, guard=guard
    )
    context.table(ENDPOINT.table, request.region).put(name, row)
    context.hosting.begin(request.region, name)
    return {"EndpointArn": arn}


def describe_endpoint(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    name = request.params["EndpointName"]
    release_instances(context, request.region, name)
    row = found(context, request, ENDPOINT, name)
    shown = row["serving"] or row["pending"]
    description = {
        "EndpointName": name,
        "EndpointArn": row["arn"],
        "EndpointConfigName": shown["config"],
        "EndpointStatus": row["status"],
        "FailureReason": row["failure"],
        "CreationTime": row["created"],
        "LastModifiedTime": row["modified"],
        "LastDeploymentConfig": row["guard"],
        "AsyncInferenceConfig": shown["async"],
        "DataCaptureConfig": _captured(shown["capture"]),
        "PendingDeploymentSummary": _pending(row),
    }
    if row["serving"]:
        description["ProductionVariants"] = [described(variant) for variant in row["serving"]["variants"]]
        shadows = [described(variant) for variant in row["serving"]["shadows"]]
        description["ShadowProductionVariants"] = shadows or None
    return description


def _captured(capture: Row | None) -> Row | None:
    """A DataCaptureConfigSummary."""
    if capture is None:
        return None
    enabled = capture.get("EnableCapture", True)
    return {
        "EnableCapture": enabled,
        "CaptureStatus": "Started" if enabled else "Stopped",
        "CurrentSamplingPercentage": capture["InitialSamplingPercentage"],
        "DestinationS3Uri": capture["DestinationS3Uri"],
        "KmsKeyId": capture.get("KmsKeyId", ""),
    }


def _pending(row: Row) -> Row | None:
    pending = row["pending"]
    if pending is None or row["status"] not in ("Updating", "Creating"):
        return None
    shadows = [described(variant, pending=True) for variant in pending["shadows"]]
    return {
        "EndpointConfigName": pending["config"],
        "ProductionVariants": [described(variant, pending=True) for variant in pending["variants"]],
        "StartTime": pending["began"],
        **({"ShadowProductionVariants": shadows} if shadows else {}),
    }


def list_endpoints(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    rows, token = page(context.table(ENDPOINT.table, request.region).rows(), request.params)
    messages = [
        {
            "EndpointName": name,
            "EndpointArn": row["arn"],
            "CreationTime": row["created"],
            "LastModifiedTime": row["modified"],
            "EndpointStatus": row["status"],
        }
        for name, row in rows
    ]
    return {"Endpoints": messages, "NextToken": token or None}


def update_endpoint(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    name = params["EndpointName"]
    row = settled_endpoint(context, request.region, name)
    # If a current configuration was deleted, its endpoint can no longer be updated.
    found(context, request, ENDPOINT_CONFIG, row["serving"]["config"])
    pending = snapshot(context, request, params["EndpointConfigName"])
    guard = _rollback_alarms(context, request, row)
    _require_same_variants(guard, row["serving"], pending)
    excluded = [item["VariantPropertyType"] for item in params.get("ExcludeRetainedVariantProperties", ())]
    if params.get("RetainAllVariantProperties"):
        retain(pending, row["serving"], excluded=excluded)
    elif excluded:
        raise refused("ExcludeRetainedVariantProperties requires RetainAllVariantProperties to be true.")
    _require_same_types(context, request, row["serving"], pending)
    require_quota(context, request.region, pending)
    row.update(status="Updating", pending=pending, failure=None, guard=guard)
    touch(context, request.region, name, row)
    return {"EndpointArn": row["arn"]}


def _require_same_types(context: EmulatorContext, request: ApiRequest, old: Row, new: Row) -> None:
    """A variant that is scaled automatically must stay, and keep its instance type: botocore's service model,
    UpdateEndpoint and ProductionVariant do not say so; reports: hashicorp/terraform-provider-aws#14337.
    """
    before = {variant["name"]: types_of(variant["params"]) for variant in old["variants"]}
    scaled = scaled_variants(context, request.region, request.params["EndpointName"])
    if lost := sorted(scaled - {variant["name"] for variant in new["variants"]}):
        raise refused(
            f"The following variant(s) must be deregistered as scalable targets with AWS Auto Scaling before they can "
            f"be removed: {', '.join(lost)}."
        )
    for variant in new["variants"]:
        name = variant["name"]
        if name in scaled and types_of(variant["params"]) != before.get(name):
            raise refused(
                f"Cannot update the instance type of variant {name}: it has a scalable target registered. "
                "Deregister the scalable target first."
            )


def _require_same_variants(guard: Row | None, old: Row, new: Row) -> None:
    """SageMaker developer guide, "Exclusions" of deployment guardrails: "your new endpoint configuration must have the
    same variant name as the old endpoint configuration", and a rolling deployment is not for "multi-variant inference
    endpoints". That other updates are refused, and not done all at once, is our reading; the words are ours.
    """
    policies = {"BlueGreenUpdatePolicy", "RollingUpdatePolicy"} & {*(guard or {})}
    names = [sorted(variant["name"] for variant in (*one["variants"], *one["shadows"])) for one in (old, new)]
    if policies and names[0] != names[1]:
        raise refused("DeploymentConfig requires the same variant names in the old and new endpoint configs.")
    if "RollingUpdatePolicy" in policies and len(names[1]) > 1:
        raise refused("RollingUpdatePolicy is not supported for endpoints with multiple variants.")


def _rollback_alarms(context: EmulatorContext, request: ApiRequest, row: Row) -> Row | None:
    """The deployment policy of this update; the alarms that it names must exist."""
    params = request.params
    guard: Row | None = params.get("DeploymentConfig")
    if params.get("RetainDeploymentConfig"):
        if guard:
            raise refused("DeploymentConfig cannot be specified when RetainDeploymentConfig is true.")
        guard = row["guard"]
        return guard
    if guard and "BlueGreenUpdatePolicy" in guard and "RollingUpdatePolicy" in guard:
        raise refused("Only one of BlueGreenUpdatePolicy and RollingUpdatePolicy can be specified.")
    for alarm in alarms_of(guard):
        if is_ringing(context, request.region, alarm) is None:
            raise refused(f'Could not find alarm "{alarm}".')
    return guard


def alarms_of(guard: Row | None) -> list[str]:
    rollback = (guard or {}).get("AutoRollbackConfiguration") or {}
    return [alarm["AlarmName"] for alarm in rollback.get("Alarms", ())]


def update_weights_and_capacities(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    desired = {one["VariantName"]: one for one in request.params["DesiredWeightsAndCapacities"]}
    row = set_capacities(context, request.region, request.params["EndpointName"], desired)
    return {"EndpointArn": row["arn"]}


def delete_endpoint(context: EmulatorContext, request: ApiRequest) -> None:
    name = request.params["EndpointName"]
    row = found(context, request, ENDPOINT, name)
    if row["status"] in ("Creating", "Deleting"):
        raise in_progress(row)
    existing = sorted(components_of(context, request.region, name))
    if existing:
        raise refused(
            f'Endpoint "{row["arn"]}" has inference components attached: {", ".join(existing)}. Delete them first.'
        )
    row["status"] = "Deleting"
    forget_endpoint(context, request.region, name)
    touch(context, request.region, name, row)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateEndpoint": create_endpoint,
    "DescribeEndpoint": describe_endpoint,
    "ListEndpoints": list_endpoints,
    "UpdateEndpoint": update_endpoint,
    "UpdateEndpointWeightsAndCapacities": update_weights_and_capacities,
    "DeleteEndpoint": delete_endpoint,
}


def snapshot(context: EmulatorContext, request: ApiRequest, config_name: str) -> Row:
    """The current deployment of this configuration; ApiError when it or a model of it does not exist."""
    params = found(context, request, ENDPOINT_CONFIG, config_name)["params"]
    return {
        "config": config_name,
        "began": context.clock.now(),
        "async": params.get("AsyncInferenceConfig"),
        "capture": params.get("DataCaptureConfig"),
        "role": params.get("ExecutionRoleArn"),
        "variants": [_variant(context, request, variant) for variant in params.get("ProductionVariants", ())],
        "shadows": [
            _variant(context, request, variant) for variant in params.get("ShadowProductionVariants", ())
        ],
    }


def _variant(context: EmulatorContext, request: ApiRequest, variant: Mapping[str, Any]) -> Row:
    model = found(context, request, MODEL, variant["ModelName"])["params"] if "ModelName" in variant else None
    count, weight = variant.get("InitialInstanceCount", 1), variant.get("InitialVariantWeight", 1.0)
    return {
        "name": variant["VariantName"],
        "params": dict(variant),
        "model": model,
        "count": count,
        "desired_count": count,
        "weight": weight,
        "desired_weight": weight,
    }


def retain(new: Row, old: Row, *, excluded: Sequence[str]) -> None:
    """Keep the counts and weights that were changed since, variant by variant."""
    before = {variant["name"]: variant for variant in old["variants"]}
    for variant in new["variants"]:
        kept = before.get(variant["name"])
        if kept is None:
            continue
        if "DesiredInstanceCount" not in excluded:
            variant["count"] = variant["desired_count"] = kept["desired_count"]
        if "DesiredWeight" not in excluded:
            variant["weight"] = variant["desired_weight"] = kept["desired_weight"]


def described(variant: Row, *, pending: bool = False) -> Row:
    """A ProductionVariantSummary."""
    images = [
        container["Image"] for container in containers_of(variant["model"] or {}) if "Image" in container
    ]
    description: Row = {
        "VariantName": variant["name"],
        "DeployedImages": [deployed_image(image, variant) for image in images],
        "CurrentWeight": variant["weight"],
        "DesiredWeight": variant["desired_weight"],
        "CurrentInstanceCount": 0 if pending else variant["count"],
        "DesiredInstanceCount": variant["desired_count"],
    }
    if pending:
        description["InstanceType"] = variant["params"].get("InstanceType")
        description["VariantStatus"] = [{"Status": "Creating"}]
    if pools := described_pools(variant):
        description["InstancePools"] = pools
    if "ManagedInstanceScaling" in variant["params"]:
        description["ManagedInstanceScaling"] = variant["params"]["ManagedInstanceScaling"]
    return description
