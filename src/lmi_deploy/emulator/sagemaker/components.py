"""CreateInferenceComponent and its kin: what is accepted, and what is told. What then happens is hosting's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Ask, Operation, World
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.container_images import require_image
from lmi_deploy.emulator.sagemaker.deployments import deployed_image
from lmi_deploy.emulator.sagemaker.lists import page
from lmi_deploy.emulator.sagemaker.models import containers_of
from lmi_deploy.emulator.sagemaker.naming import (
    ENDPOINT,
    INFERENCE_COMPONENT,
    MODEL,
    arn_of,
    found,
    require_new,
)
from lmi_deploy.emulator.sagemaker.records import new_row
from lmi_deploy.emulator.wire.errors import refused


def create_component(world: World, ask: Ask) -> Mapping[str, Any]:
    params, name = ask.params, ask.params["InferenceComponentName"]
    arn = require_new(world, ask, INFERENCE_COMPONENT, name)
    spec = specification(world, ask, params)
    row = new_row(
        world,
        ask,
        arn,
        status="Creating",
        failure=None,
        endpoint=params["EndpointName"],
        variant=_variant(world, ask, spec),
        spec=spec,
        pending=None,
        copies=0,
        desired=params.get("RuntimeConfig", {}).get("CopyCount", 1),
    )
    _put(world, ask, name, row)
    return {"InferenceComponentArn": arn}


def specification(world: World, ask: Ask, params: Mapping[str, Any]) -> Row:
    """What is to run, with the model as it is now; ValidationException where that is not told, or not there."""
    if ("Specification" in params) == ("Specifications" in params):
        raise refused("Exactly one of Specification and Specifications must be specified.")
    told = params.get("Specification") or params["Specifications"][0]
    given = [key for key in ("ModelName", "Container", "BaseInferenceComponentName") if key in told]
    if not given or given[:2] == ["ModelName", "Container"]:
        raise refused("Exactly one of ModelName and Container must be specified in Specification.")
    if "BaseInferenceComponentName" in told:
        found(world, ask, INFERENCE_COMPONENT, told["BaseInferenceComponentName"])
    elif "ComputeResourceRequirements" not in told:
        raise refused("ComputeResourceRequirements is required in Specification.")
    if "Image" in told.get("Container", {}):
        require_image(world, ask.region, told["Container"]["Image"])
    return {"told": told, "several": params.get("Specifications"), "model": _model(world, ask, told)}


def _model(world: World, ask: Ask, told: Mapping[str, Any]) -> Row | None:
    """As CreateModel was told it; None of an adapter, which its base serves."""
    if "ModelName" in told:
        params: Row = found(world, ask, MODEL, told["ModelName"])["params"]
        return params
    if "BaseInferenceComponentName" in told:
        return None
    held = told["Container"]
    if "Image" not in held:
        raise refused("Image is required in Container.")
    moved = {"ArtifactUrl": "ModelDataUrl"}
    container = {
        moved.get(key, key): held[key] for key in ("Image", "ArtifactUrl", "Environment") if key in held
    }
    return {"PrimaryContainer": container}


def _variant(world: World, ask: Ask, spec: Row) -> str:
    """The name of the variant that it is to lie on."""
    row = found(world, ask, ENDPOINT, ask.params["EndpointName"])
    if row["status"] not in ("InService", "Updating", "SystemUpdating"):
        raise refused(
            f'Cannot create inference component on endpoint "{row["arn"]}" in status "{row["status"]}".'
        )
    free = [variant["name"] for variant in row["serving"]["variants"] if variant["model"] is None]
    if not free:
        raise refused(
            f'Endpoint "{row["arn"]}" has a model in each of its variants: it takes no inference components.'
        )
    base = spec["told"].get("BaseInferenceComponentName")
    if base is not None:
        return str(found(world, ask, INFERENCE_COMPONENT, base)["variant"])
    if "VariantName" not in ask.params:
        raise refused("VariantName is required for an inference component that is no adapter.")
    if ask.params["VariantName"] not in free:
        raise refused(f'Could not find production variant "{ask.params["VariantName"]}" of "{row["arn"]}".')
    return str(ask.params["VariantName"])


def describe_component(world: World, ask: Ask) -> Mapping[str, Any]:
    name, row = _asked(world, ask)
    summary = _summary(row)
    return {
        **_told(world, ask, name, row),
        "FailureReason": row["failure"],
        "Specification": summary if row["spec"]["several"] is None else None,
        "Specifications": [summary] if row["spec"]["several"] is not None else None,
        "RuntimeConfig": {"DesiredCopyCount": row["desired"], "CurrentCopyCount": row["copies"]},
        "LastDeploymentConfig": row.get("guard"),
    }


def _summary(row: Row) -> Row:
    told, model = row["spec"]["told"], row["spec"]["model"]
    held = next(containers_of(model or {}), None)
    if held is None or "Container" not in told:
        return dict(told)
    image = deployed_image(held["Image"], row)
    return {**told, "Container": {**told["Container"], "DeployedImage": image}}


def list_components(world: World, ask: Ask) -> Mapping[str, Any]:
    params = ask.params
    kept = (
        (name, row)
        for name, row in world.table(INFERENCE_COMPONENT.table, ask.region).rows()
        if params.get("EndpointNameEquals") in (None, row["endpoint"])
        and params.get("VariantNameEquals") in (None, row["variant"])
    )
    rows, token = page(kept, params)
    told = [_told(world, ask, name, row) for name, row in rows]
    return {"InferenceComponents": told, "NextToken": token or None}


def update_component(world: World, ask: Ask) -> Mapping[str, Any]:
    name, row = _settled(world, ask)
    params = ask.params
    pending = None
    if "Specification" in params or "Specifications" in params:
        pending = specification(world, ask, params)
    copies = params.get("RuntimeConfig", {}).get("CopyCount", row["desired"])
    row.update(status="Updating", failure=None, pending=pending, desired=copies)
    row["guard"] = params.get("DeploymentConfig", row.get("guard"))
    _put(world, ask, name, row)
    return {"InferenceComponentArn": row["arn"]}


def update_runtime(world: World, ask: Ask) -> Mapping[str, Any]:
    name, row = _settled(world, ask)
    copies = ask.params["DesiredRuntimeConfig"]["CopyCount"]
    row.update(status="Updating", failure=None, pending=None, desired=copies)
    _put(world, ask, name, row)
    return {"InferenceComponentArn": row["arn"]}


def delete_component(world: World, ask: Ask) -> None:
    name, row = _asked(world, ask)
    if row["status"] in ("Creating", "Updating"):
        raise refused(f'Cannot delete in-progress inference component "{row["arn"]}".')
    if row["status"] == "Deleting":
        raise refused(f'Inference component "{row["arn"]}" is in DELETE_IN_PROGRESS.')
    if any(_base(other) == name for _, other in world.table(INFERENCE_COMPONENT.table, ask.region).rows()):
        raise refused(
            f'"{row["arn"]}" is a base inference component for one or more associated adapter inference components. '
            "Delete those first."
        )
    row["status"] = "Deleting"
    _put(world, ask, name, row)


def components_of(world: World, region: str, endpoint: str) -> Iterator[str]:
    for name, row in world.table(INFERENCE_COMPONENT.table, region).rows():
        if row["endpoint"] == endpoint:
            yield name


def _base(row: Row) -> str | None:
    base: str | None = row["spec"]["told"].get("BaseInferenceComponentName")
    return base


def _told(world: World, ask: Ask, name: str, row: Row) -> Row:
    return {
        "InferenceComponentName": name,
        "InferenceComponentArn": row["arn"],
        "EndpointName": row["endpoint"],
        "EndpointArn": arn_of(world, ask.region, ENDPOINT, row["endpoint"]),
        "VariantName": row["variant"],
        "InferenceComponentStatus": row["status"],
        "CreationTime": row["created"],
        "LastModifiedTime": row["modified"],
    }


def _asked(world: World, ask: Ask) -> tuple[str, Row]:
    name = ask.params["InferenceComponentName"]
    return name, found(world, ask, INFERENCE_COMPONENT, name)


def _settled(world: World, ask: Ask) -> tuple[str, Row]:
    name, row = _asked(world, ask)
    if row["status"] != "InService":
        raise refused(f'Cannot update inference component "{row["arn"]}" in status "{row["status"]}".')
    return name, row


def _put(world: World, ask: Ask, name: str, row: Row) -> None:
    row["modified"] = world.clock.now()
    world.table(INFERENCE_COMPONENT.table, ask.region).put(name, row)
    world.components.begin(ask.region, name)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateInferenceComponent": create_component,
    "DescribeInferenceComponent": describe_component,
    "ListInferenceComponents": list_components,
    "UpdateInferenceComponent": update_component,
    "UpdateInferenceComponentRuntimeConfig": update_runtime,
    "DeleteInferenceComponent": delete_component,
}
