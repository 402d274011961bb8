"""CreateEndpointConfig and related operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.catalog.instances import has_local_disks
from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.hosting.instance_pools import types_of
from lmi_deploy.emulator.sagemaker.resources import (
    ENDPOINT_CONFIG,
    MODEL,
    drop,
    found,
    new_row,
    page,
    requested_settings,
    require_new,
    visible_rows,
)
from lmi_deploy.emulator.wire.errors import refused


def create_endpoint_config(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    name = params["EndpointConfigName"]
    arn = require_new(context, request, ENDPOINT_CONFIG, name)
    variants = [*params.get("ProductionVariants", ()), *params.get("ShadowProductionVariants", ())]
    for variant in variants:
        _validate(variant, params)
        if "ModelName" in variant:
            found(context, request, MODEL, variant["ModelName"])
    names = [variant["VariantName"] for variant in variants]
    if len(set(names)) < len(names):
        raise refused("Production variant names must be unique within an endpoint configuration.")
    _require_one_shadow(params)
    if "AsyncInferenceConfig" in params and len(names) > 1:
        raise refused("AsyncInferenceConfig is supported with one production variant only.")
    row = new_row(context, request, arn, params=requested_settings(request))
    context.table(ENDPOINT_CONFIG.table, request.region).put(name, row)
    return {"EndpointConfigArn": arn}


def describe_endpoint_config(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    row = found(context, request, ENDPOINT_CONFIG, request.params["EndpointConfigName"])
    params = row["params"]
    description = {**params, "EndpointConfigArn": row["arn"], "CreationTime": row["created"]}
    for key in ("ProductionVariants", "ShadowProductionVariants"):
        if key in params:
            description[key] = [{"InitialVariantWeight": 1.0, **variant} for variant in params[key]]
    return description


def list_endpoint_configs(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    rows, token = page(visible_rows(context, request, ENDPOINT_CONFIG), request.params)
    messages = [
        {"EndpointConfigName": name, "EndpointConfigArn": row["arn"], "CreationTime": row["created"]}
        for name, row in rows
    ]
    return {"EndpointConfigs": messages, "NextToken": token or None}


def delete_endpoint_config(context: EmulatorContext, request: ApiRequest) -> None:
    """Also one that an endpoint serves with; it can then not be found again, and serves on."""
    drop(context, request, ENDPOINT_CONFIG, request.params["EndpointConfigName"])


def _require_one_shadow(params: Mapping[str, Any]) -> None:
    """botocore's service model, CreateEndpointConfig, ShadowProductionVariants: "you can only specify one variant for
    ProductionVariants and one variant for ShadowProductionVariants". That a shadow variant needs a model follows from
    it ("replicated from the model specified on ProductionVariants"); the words are ours.
    """
    shadows, production = params.get("ShadowProductionVariants", ()), params.get("ProductionVariants", ())
    if not shadows:
        return
    if len(shadows) > 1 or len(production) > 1:
        raise refused("An endpoint with a shadow variant has one production variant and one shadow variant.")
    if any("ModelName" not in variant for variant in (*shadows, *production)):
        raise refused("Shadow variants are not supported for inference components.")


def _validate(variant: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    has_model, serverless = "ModelName" in variant, "ServerlessConfig" in variant
    if not has_model and "ExecutionRoleArn" not in params:
        raise refused(
            "ExecutionRoleArn is required when ModelName is not specified in a production variant "
            "(inference components)."
        )
    if serverless:
        return
    _validate_types(variant)
    if not variant.get("InitialInstanceCount") and "ManagedInstanceScaling" not in variant:
        raise refused("InitialInstanceCount is required for a production variant without ServerlessConfig.")
    managed = variant.get("ManagedInstanceScaling", {})
    if managed and managed.get("MinInstanceCount", 0) > managed.get("MaxInstanceCount", 10_000):
        raise refused("MinInstanceCount must not be greater than MaxInstanceCount in ManagedInstanceScaling.")
    if managed.get("Status") == "ENABLED" and managed.get("MinInstanceCount") == 0 and has_model:
        # Developer guide, "Scale an endpoint to zero instances": only one that hosts inference components; the words
        # are ours.
        raise refused("MinInstanceCount 0 is supported for variants with inference components only.")
    disks = [kind for kind in types_of(variant) if has_local_disks(kind)]
    if "VolumeSizeInGB" in variant and disks:
        raise refused(f"VolumeSize parameter is not allowed for the selected Instance type {disks[0]}")


def _validate_types(variant: Mapping[str, Any]) -> None:
    """One type, or pools of different types and priorities: the developer guide replaces one parameter by the other.
    The words are ours.
    """
    pools = variant.get("InstancePools", ())
    if bool(pools) == ("InstanceType" in variant):
        raise refused(
            "Specify either InstanceType or InstancePools for a production variant without ServerlessConfig."
        )
    for member in ("InstanceType", "Priority"):
        if len({pool[member] for pool in pools}) < len(pools):
            raise refused(f"Each pool in InstancePools must have its own {member}.")


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateEndpointConfig": create_endpoint_config,
    "DescribeEndpointConfig": describe_endpoint_config,
    "ListEndpointConfigs": list_endpoint_configs,
    "DeleteEndpointConfig": delete_endpoint_config,
}
