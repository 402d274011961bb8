"""CreateProcessingJob and related operations: validation and responses. `jobs` carries out the changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.catalog.instances import has_local_disks
from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.containers import require_image
from lmi_deploy.emulator.sagemaker.resources import (
    PROCESSING_JOB,
    new_row,
    page,
    requested_settings,
    require_new,
    require_role,
)
from lmi_deploy.emulator.services.service_quotas import require_job_quota
from lmi_deploy.emulator.wire.errors import ApiError, refused

IN_PROGRESS: Final = ("InProgress", "Stopping")
_FOLDER: Final = "/opt/ml/processing/"


def create_processing_job(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    name = params["ProcessingJobName"]
    arn = require_new(context, request, PROCESSING_JOB, name)
    _validate(params)
    require_role(context, params["RoleArn"])
    require_image(context, request.region, params["AppSpecification"]["ImageUri"])
    require_job_quota(context, request.region, params)
    row = new_row(context, request, arn, status="InProgress", params=requested_settings(request))
    context.table(PROCESSING_JOB.table, request.region).put(name, row)
    context.jobs.begin(request.region, name)
    return {"ProcessingJobArn": arn}


def describe_processing_job(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    row = _found(context, request)
    return {**row["params"], **_description(request.params["ProcessingJobName"], row)}


def list_processing_jobs(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    rows, token = page(
        context.table(PROCESSING_JOB.table, request.region).rows(), request.params, order="Ascending"
    )
    return {
        "ProcessingJobSummaries": [_description(name, row) for name, row in rows],
        "NextToken": token or None,
    }


def stop_processing_job(context: EmulatorContext, request: ApiRequest) -> None:
    name, row = request.params["ProcessingJobName"], _found(context, request)
    if row["status"] != "InProgress":
        raise refused(f"The request was rejected because the processing job is in status {row['status']}.")
    row.update(status="Stopping", modified=context.clock.now())
    context.table(PROCESSING_JOB.table, request.region).put(name, row)
    context.jobs.stop(request.region, name)


def delete_processing_job(context: EmulatorContext, request: ApiRequest) -> None:
    row = _found(context, request)
    if row["status"] in IN_PROGRESS:
        raise ApiError(
            "ResourceInUse",
            f"Cannot delete processing job {row['arn']} in status {row['status']}. Stop it, and wait for it to end.",
        )
    context.table(PROCESSING_JOB.table, request.region).drop(request.params["ProcessingJobName"])


def _description(name: str, row: Row) -> Row:
    return {
        "ProcessingJobName": name,
        "ProcessingJobArn": row["arn"],
        "ProcessingJobStatus": row["status"],
        "CreationTime": row["created"],
        "LastModifiedTime": row["modified"],
        "ProcessingStartTime": row.get("started"),
        "ProcessingEndTime": row.get("ended"),
        "FailureReason": row.get("failure"),
        "ExitMessage": row.get("message"),
    }


def _found(context: EmulatorContext, request: ApiRequest) -> Row:
    name = request.params["ProcessingJobName"]
    row = context.table(PROCESSING_JOB.table, request.region).get(name)
    if row is None:
        raise refused(f"Could not find requested job with name: {name}")
    return row


def _validate(params: Mapping[str, Any]) -> None:
    cluster = params["ProcessingResources"]["ClusterConfig"]
    if "InstanceType" not in cluster or "InstanceCount" not in cluster:
        raise refused("InstanceType and InstanceCount are required in ClusterConfig.")
    if "VolumeKmsKeyId" in cluster and has_local_disks(cluster["InstanceType"]):
        # SageMaker's API reference, ProcessingClusterConfig: "You can't request a VolumeKmsKeyId when using an
        # instance type with local storage."
        raise refused(
            f"VolumeKmsKeyId cannot be requested for {cluster['InstanceType']}: it has local storage."
        )
    for source in params.get("ProcessingInputs", ()):
        if "DatasetDefinition" in source:
            raise ApiError("NotImplemented", "The emulator does not support Athena and Redshift.", status=501)
        if "S3Input" not in source:
            raise refused(
                f"S3Input or DatasetDefinition is required in ProcessingInput {source['InputName']}."
            )
        _require_place(source, source["S3Input"], source["InputName"])
    for target in params.get("ProcessingOutputConfig", {}).get("Outputs", ()):
        if "S3Output" in target:
            _require_place(target, target["S3Output"], target["OutputName"])


def _require_place(full: Mapping[str, Any], part: Mapping[str, Any], name: str) -> None:
    if not full.get("AppManaged") and not part.get("LocalPath", "").startswith(_FOLDER):
        raise refused(f"LocalPath of {name} is required, and must begin with {_FOLDER}.")


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateProcessingJob": create_processing_job,
    "DescribeProcessingJob": describe_processing_job,
    "ListProcessingJobs": list_processing_jobs,
    "StopProcessingJob": stop_processing_job,
    "DeleteProcessingJob": delete_processing_job,
}
