"""CreateInferenceComponent and related operations: validation and responses. `hosting` carries out the changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.containers import containers_of, deployed_image, require_image
from lmi_deploy.emulator.sagemaker.resources import (
    ENDPOINT,
    INFERENCE_COMPONENT,
    MODEL,
    arn_of,
    found,
    new_row,
    page,
    require_new,
)
from lmi_deploy.emulator.wire.errors import refused


def create_component(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params, name = request.params, request.params["InferenceComponentName"]
    copies = params.get("RuntimeConfig", {}).get("CopyCount", 1)
    if copies < 1:
        # Measured (stdapi-ai/stdapi.ai issue 43): to none a component gets only once it exists.
        raise refused("Inference components copy count an integer larger than 0")
    arn = require_new(context, request, INFERENCE_COMPONENT, name)
    spec = specification(context, request, params)
    row = new_row(
        context,
        request,
        arn,
        status="Creating",
        failure=None,
        endpoint=params["EndpointName"],
        variant=_variant(context, request, spec),
        spec=spec,
        pending=None,
        copies=0,
        desired=copies,
    )
    _put(context, request, name, row)
    return {"InferenceComponentArn": arn}


def specification(context: EmulatorContext, request: ApiRequest, params: Mapping[str, Any]) -> Row:
    """The settings to run, with the model as it is now; ValidationException if they are not given or do not exist."""
    if ("Specification" in params) == ("Specifications" in params):
        raise refused("Exactly one of Specification and Specifications must be specified.")
    description = params.get("Specification") or params["Specifications"][0]
    given = [key for key in ("ModelName", "Container", "BaseInferenceComponentName") if key in description]
    if not given or given[:2] == ["ModelName", "Container"]:
        raise refused("Exactly one of ModelName and Container must be specified in Specification.")
    if "BaseInferenceComponentName" in description:
        _require_adapter(context, request, description)
    elif "ComputeResourceRequirements" not in description:
        raise refused("ComputeResourceRequirements is required in Specification.")
    if "Image" in description.get("Container", {}):
        require_image(context, request.region, description["Container"]["Image"])
    return {
        "description": description,
        "specifications": params.get("Specifications"),
        "model": _model(context, request, description),
    }


def _require_adapter(context: EmulatorContext, request: ApiRequest, description: Mapping[str, Any]) -> None:
    """Sources: API reference, InferenceComponentSpecification: the base must exist, ComputeResourceRequirements is
    omitted, the adapter is named in Container. The words of the refusals are ours.
    """
    name = description["BaseInferenceComponentName"]
    base = found(context, request, INFERENCE_COMPONENT, name)
    if "ComputeResourceRequirements" in description:
        raise refused("ComputeResourceRequirements must not be specified for an adapter inference component.")
    if "ArtifactUrl" not in description.get("Container", {}):
        raise refused("ArtifactUrl is required in Container of an adapter inference component.")
    if "BaseInferenceComponentName" in base["spec"]["description"]:
        raise refused(f'Inference component "{base["arn"]}" is an adapter and cannot be a base.')
    if base["status"] not in ("InService", "Updating"):
        raise refused(f'Base inference component "{base["arn"]}" is in status "{base["status"]}".')
    if base["endpoint"] != request.params.get("EndpointName", base["endpoint"]):
        raise refused(f'Base inference component "{base["arn"]}" is on another endpoint.')


def _model(context: EmulatorContext, request: ApiRequest, description: Mapping[str, Any]) -> Row | None:
    """The settings from CreateModel; None for an adapter, which its base component serves."""
    if "ModelName" in description:
        params: Row = found(context, request, MODEL, description["ModelName"])["params"]
        return params
    if "BaseInferenceComponentName" in description:
        return None
    existing = description["Container"]
    if "Image" not in existing:
        raise refused("Image is required in Container.")
    moved = {"ArtifactUrl": "ModelDataUrl"}
    container = {
        moved.get(key, key): existing[key]
        for key in ("Image", "ArtifactUrl", "Environment")
        if key in existing
    }
    return {"PrimaryContainer": container}


def _variant(context: EmulatorContext, request: ApiRequest, spec: Row) -> str:
    """The name of the variant to place it on."""
    row = found(context, request, ENDPOINT, request.params["EndpointName"])
    if row["status"] not in ("InService", "Updating", "SystemUpdating"):
        raise refused(
            f'Cannot create inference component on endpoint "{row["arn"]}" in status "{row["status"]}".'
        )
    free = [variant["name"] for variant in row["serving"]["variants"] if variant["model"] is None]
    if not free:
        raise refused(
            f'Endpoint "{row["arn"]}" has a model in each variant, so it cannot have inference components.'
        )
    base = spec["description"].get("BaseInferenceComponentName")
    if base is not None:
        return str(found(context, request, INFERENCE_COMPONENT, base)["variant"])
    if "VariantName" not in request.params:
        raise refused("VariantName is required for an inference component that is no adapter.")
    if request.params["VariantName"] not in free:
        raise refused(
            f'Could not find production variant "{request.params["VariantName"]}" of "{row["arn"]}".'
        )
    return str(request.params["VariantName"])


def describe_component(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    name, row = _requested_row(context, request)
    summary = _summary(row)
    return {
        **_description(context, request, name, row),
        "FailureReason": row["failure"],
        "Specification": summary if row["spec"]["specifications"] is None else None,
        "Specifications": [summary] if row["spec"]["specifications"] is not None else None,
        "RuntimeConfig": {"DesiredCopyCount": row["desired"], "CurrentCopyCount": row["copies"]},
        "LastDeploymentConfig": row.get("guard"),
    }


def _summary(row: Row) -> Row:
    description, model = row["spec"]["description"], row["spec"]["model"]
    existing = next(containers_of(model or {}), None)
    if existing is None or "Container" not in description:
        return dict(description)
    image = deployed_image(existing["Image"], row)
    return {**description, "Container": {**description["Container"], "DeployedImage": image}}


def list_components(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    kept = (
        (name, row)
        for name, row in context.table(INFERENCE_COMPONENT.table, request.region).rows()
        if params.get("EndpointNameEquals") in (None, row["endpoint"])
        and params.get("VariantNameEquals") in (None, row["variant"])
    )
    rows, token = page(kept, params)
    messages = [_description(context, request, name, row) for name, row in rows]
    return {"InferenceComponents": messages, "NextToken": token or None}


def update_component(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    name, row = _settled(context, request)
    params = request.params
    pending = None
    if "Specification" in params or "Specifications" in params:
        pending = specification(context, request, params)
        _require_same_base(row, pending)
    copies = params.get("RuntimeConfig", {}).get("CopyCount", row["desired"])
    row.update(status="Updating", failure=None, pending=pending, desired=copies)
    row["guard"] = params.get("DeploymentConfig", row.get("guard"))
    _put(context, request, name, row)
    return {"InferenceComponentArn": row["arn"]}


def _require_same_base(row: Row, pending: Row) -> None:
    """That an adapter moves to another model is documented nowhere."""
    now, then = (each["description"].get("BaseInferenceComponentName") for each in (row["spec"], pending))
    if now != then:
        raise refused(f'The base of inference component "{row["arn"]}" cannot be changed.')


def update_runtime(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    name, row = _settled(context, request)
    set_copies(context, request.region, name, request.params["DesiredRuntimeConfig"]["CopyCount"])
    return {"InferenceComponentArn": row["arn"]}


def set_copies(context: EmulatorContext, region: str, name: str, copies: int) -> None:
    """Of a component that may be changed now."""
    row = context.table(INFERENCE_COMPONENT.table, region).get(name)
    if row is None or row["status"] != "InService":
        status = row["status"] if row else "Deleted"
        raise refused(f'Cannot update inference component "{name}" in status "{status}".')
    row.update(status="Updating", failure=None, pending=None, desired=copies)
    _begin(context, region, name, row)


def delete_component(context: EmulatorContext, request: ApiRequest) -> None:
    name, row = _requested_row(context, request)
    if row["status"] in ("Creating", "Updating"):
        raise refused(f'Cannot delete in-progress inference component "{row["arn"]}".')
    if row["status"] == "Deleting":
        raise refused(f'Inference component "{row["arn"]}" is in DELETE_IN_PROGRESS.')
    others = context.table(INFERENCE_COMPONENT.table, request.region).rows()
    if any(other["spec"]["description"].get("BaseInferenceComponentName") == name for _, other in others):
        raise refused(
            f'"{row["arn"]}" is a base inference component for one or more associated adapter inference components. '
            "Delete those first."
        )
    row["status"] = "Deleting"
    _put(context, request, name, row)


def components_of(context: EmulatorContext, region: str, endpoint: str) -> Iterator[str]:
    for name, row in context.table(INFERENCE_COMPONENT.table, region).rows():
        if row["endpoint"] == endpoint:
            yield name


def _description(context: EmulatorContext, request: ApiRequest, name: str, row: Row) -> Row:
    return {
        "InferenceComponentName": name,
        "InferenceComponentArn": row["arn"],
        "EndpointName": row["endpoint"],
        "EndpointArn": arn_of(context, request.region, ENDPOINT, row["endpoint"]),
        "VariantName": row["variant"],
        "InferenceComponentStatus": row["status"],
        "CreationTime": row["created"],
        "LastModifiedTime": row["modified"],
    }


def _requested_row(context: EmulatorContext, request: ApiRequest) -> tuple[str, Row]:
    name = request.params["InferenceComponentName"]
    return name, found(context, request, INFERENCE_COMPONENT, name)


def _settled(context: EmulatorContext, request: ApiRequest) -> tuple[str, Row]:
    name, row = _requested_row(context, request)
    if row["status"] != "InService":
        raise refused(f'Cannot update inference component "{row["arn"]}" in status "{row["status"]}".')
    return name, row


def _put(context: EmulatorContext, request: ApiRequest, name: str, row: Row) -> None:
    _begin(context, request.region, name, row)


def _begin(context: EmulatorContext, region: str, name: str, row: Row) -> None:
    row["modified"] = context.clock.now()
    context.table(INFERENCE_COMPONENT.table, region).put(name, row)
    context.components.begin(region, name)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateInferenceComponent": create_component,
    "DescribeInferenceComponent": describe_component,
    "ListInferenceComponents": list_components,
    "UpdateInferenceComponent": update_component,
    "UpdateInferenceComponentRuntimeConfig": update_runtime,
    "DeleteInferenceComponent": delete_component,
}
