"""CreateModel and related operations. A model is refused here for what SageMaker checks before it accepts one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.sagemaker.containers import ModelSource, containers_of, require_image, sources_of
from lmi_deploy.emulator.sagemaker.resources import (
    MODEL,
    drop,
    found,
    new_row,
    page,
    requested_settings,
    require_new,
    require_role,
    visible_rows,
)
from lmi_deploy.emulator.wire.errors import refused


def create_model(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    arn = require_new(context, request, MODEL, params["ModelName"])
    _validate(params)
    role = params.get("ExecutionRoleArn")
    if role is None:
        raise refused("ExecutionRoleArn is required for a model with containers.")
    require_role(context, role)
    for container in containers_of(params):
        access = container.get("ImageConfig", {}).get("RepositoryAccessMode", "Platform")
        if "Image" in container and access != "Vpc":
            require_image(context, request.region, container["Image"])
        for source in sources_of(container):
            _require_source(context, request.region, role, source)
    row = new_row(context, request, arn, params=requested_settings(request))
    context.table(MODEL.table, request.region).put(params["ModelName"], row)
    return {"ModelArn": arn}


def describe_model(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    row = found(context, request, MODEL, request.params["ModelName"])
    return {
        "EnableNetworkIsolation": False,
        **row["params"],
        "ModelArn": row["arn"],
        "CreationTime": row["created"],
    }


def list_models(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    rows, token = page(visible_rows(context, request, MODEL), request.params)
    messages = [
        {"ModelName": name, "ModelArn": row["arn"], "CreationTime": row["created"]} for name, row in rows
    ]
    return {"Models": messages, "NextToken": token or None}


def delete_model(context: EmulatorContext, request: ApiRequest) -> None:
    drop(context, request, MODEL, request.params["ModelName"])


def _validate(params: Mapping[str, Any]) -> None:
    if params.get("PrimaryContainer") and params.get("Containers"):
        raise refused("Both PrimaryContainer and Containers cannot be specified at the same time.")
    existing = list(containers_of(params))
    if not existing:
        raise refused("Either PrimaryContainer or Containers must be specified.")
    for container in existing:
        if "Image" not in container and "ModelPackageName" not in container:
            raise refused("Image or ModelPackageName must be specified in a container definition.")
        if "ModelDataUrl" in container and "ModelDataSource" in container:
            raise refused("Both ModelDataUrl and ModelDataSource cannot be specified at the same time.")


def _require_source(context: EmulatorContext, region: str, role: str, source: ModelSource) -> None:
    """There is an object, and the role may list and read it."""
    if source.is_folder and not source.key.endswith("/"):
        raise refused(f'S3Uri "{source.uri}" of type S3Prefix must end with "/".')
    bucket, allows = f"arn:aws:s3:::{source.bucket}", context.roles.allows
    keys = context.objects.keys(source.bucket, source.key)
    if not source.is_folder:
        keys = [key for key in keys if key == source.key]
    may_list = not source.is_folder or allows(role, "s3:ListBucket", bucket)
    if not (keys and may_list and all(allows(role, "s3:GetObject", f"{bucket}/{key}") for key in keys)):
        raise refused(
            f'Could not access model data at {source.uri}. Please ensure that the role "{role}" exists '
            'and that its trust relationship policy allows the action "sts:AssumeRole" for the service '
            'principal "sagemaker.amazonaws.com". Also ensure that the role has "s3:GetObject" permissions '
            f"and that the object is located in {region}. If your Model uses multiple models or "
            'uncompressed models, please ensure that the role has "s3:ListBucket" permission.'
        )


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateModel": create_model,
    "DescribeModel": describe_model,
    "ListModels": list_models,
    "DeleteModel": delete_model,
}
