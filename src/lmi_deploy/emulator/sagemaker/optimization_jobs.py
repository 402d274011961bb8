"""CreateOptimizationJob and related operations: validated and described; `jobs/optimization_states.py` carries them
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import (
    MODEL,
    OPTIMIZATION_JOB,
    found,
    new_row,
    page,
    requested_settings,
    require_new,
    require_role,
)
from lmi_deploy.emulator.wire.errors import ApiError, refused

IN_PROGRESS: Final = ("STARTING", "INPROGRESS")


def create_optimization_job(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params, name = request.params, request.params["OptimizationJobName"]
    arn = require_new(context, request, OPTIMIZATION_JOB, name)
    require_role(context, params["RoleArn"])
    source = params["ModelSource"]
    if len(source) != 1:
        raise refused("Exactly one of S3 and SageMakerModel must be specified in ModelSource.")
    if "SageMakerModel" in source:
        found(context, request, MODEL, source["SageMakerModel"].get("ModelName", ""))
    _put(
        context,
        request,
        name,
        new_row(context, request, arn, status="STARTING", params=requested_settings(request)),
    )
    return {"OptimizationJobArn": arn}


def describe_optimization_job(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    name, row = _requested_row(context, request)
    failure = {"FailureReason": row.get("failure")}
    return {**row["params"], **_description(name, row), **failure, "OptimizationOutput": {}}


def list_optimization_jobs(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    rows, token = page(
        context.table(OPTIMIZATION_JOB.table, request.region).rows(), request.params, order="Ascending"
    )
    kept = [
        (name, row)
        for name, row in rows
        if request.params.get("OptimizationContains", "") in "".join(_types(row))
    ]
    return {
        "OptimizationJobSummaries": [
            {
                **_description(name, row),
                "DeploymentInstanceType": row["params"]["DeploymentInstanceType"],
                "OptimizationTypes": _types(row),
            }
            for name, row in kept
        ],
        "NextToken": token or None,
    }


def stop_optimization_job(context: EmulatorContext, request: ApiRequest) -> None:
    name, row = _requested_row(context, request)
    if row["status"] not in IN_PROGRESS:
        raise refused(f"The request was rejected because the optimization job is in status {row['status']}.")
    row["status"] = "STOPPING"
    _put(context, request, name, row)


def delete_optimization_job(context: EmulatorContext, request: ApiRequest) -> None:
    name, row = _requested_row(context, request)
    if row["status"] in (*IN_PROGRESS, "STOPPING"):
        raise refused(f"Cannot delete optimization job {row['arn']} in status {row['status']}.")
    context.table(OPTIMIZATION_JOB.table, request.region).drop(name)


def _types(row: Row) -> list[str]:
    return [name for config in row["params"]["OptimizationConfigs"] for name in config]


def _description(name: str, row: Row) -> Row:
    return {
        "OptimizationJobName": name,
        "OptimizationJobArn": row["arn"],
        "OptimizationJobStatus": row["status"],
        "CreationTime": row["created"],
        "LastModifiedTime": row["modified"],
        "OptimizationStartTime": row.get("started"),
        "OptimizationEndTime": row.get("ended"),
    }


def _requested_row(context: EmulatorContext, request: ApiRequest) -> tuple[str, Row]:
    name = request.params["OptimizationJobName"]
    row = context.table(OPTIMIZATION_JOB.table, request.region).get(name)
    if row is None:
        raise ApiError("ResourceNotFound", f"Could not find requested job with name: {name}")
    return name, row


def _put(context: EmulatorContext, request: ApiRequest, name: str, row: Row) -> None:
    row["modified"] = context.clock.now()
    context.table(OPTIMIZATION_JOB.table, request.region).put(name, row)
    context.optimizations.begin(request.region, name)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateOptimizationJob": create_optimization_job,
    "DescribeOptimizationJob": describe_optimization_job,
    "ListOptimizationJobs": list_optimization_jobs,
    "StopOptimizationJob": stop_optimization_job,
    "DeleteOptimizationJob": delete_optimization_job,
}
