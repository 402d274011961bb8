"""CreateOptimizationJob and its kin: accepted, told, and gone through in time; nothing is optimized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Ask, Operation, World
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.lists import page
from lmi_deploy.emulator.sagemaker.naming import MODEL, OPTIMIZATION_JOB, found, require_new_job
from lmi_deploy.emulator.sagemaker.records import asked_for, new_row
from lmi_deploy.emulator.sagemaker.roles import require_role
from lmi_deploy.emulator.wire.errors import ApiError, refused

UNDER_WAY: Final = ("STARTING", "INPROGRESS")


def create_optimization_job(world: World, ask: Ask) -> Mapping[str, Any]:
    params, name = ask.params, ask.params["OptimizationJobName"]
    arn = require_new_job(world, ask, OPTIMIZATION_JOB, name)
    require_role(world, params["RoleArn"])
    source = params["ModelSource"]
    if len(source) != 1:
        raise refused("Exactly one of S3 and SageMakerModel must be specified in ModelSource.")
    if "SageMakerModel" in source:
        found(world, ask, MODEL, source["SageMakerModel"].get("ModelName", ""))
    _put(world, ask, name, new_row(world, ask, arn, status="STARTING", params=asked_for(ask)))
    return {"OptimizationJobArn": arn}


def describe_optimization_job(world: World, ask: Ask) -> Mapping[str, Any]:
    name, row = _asked(world, ask)
    failure = {"FailureReason": row.get("failure")}
    return {**row["params"], **_told(name, row), **failure, "OptimizationOutput": {}}


def list_optimization_jobs(world: World, ask: Ask) -> Mapping[str, Any]:
    rows, token = page(world.table(OPTIMIZATION_JOB.table, ask.region).rows(), ask.params, order="Ascending")
    kept = [
        (name, row)
        for name, row in rows
        if ask.params.get("OptimizationContains", "") in "".join(_types(row))
    ]
    return {
        "OptimizationJobSummaries": [
            {
                **_told(name, row),
                "DeploymentInstanceType": row["params"]["DeploymentInstanceType"],
                "OptimizationTypes": _types(row),
            }
            for name, row in kept
        ],
        "NextToken": token or None,
    }


def stop_optimization_job(world: World, ask: Ask) -> None:
    name, row = _asked(world, ask)
    if row["status"] not in UNDER_WAY:
        raise refused(f"The request was rejected because the optimization job is in status {row['status']}.")
    row["status"] = "STOPPING"
    _put(world, ask, name, row)


def delete_optimization_job(world: World, ask: Ask) -> None:
    name, row = _asked(world, ask)
    if row["status"] in (*UNDER_WAY, "STOPPING"):
        raise refused(f"Cannot delete optimization job {row['arn']} in status {row['status']}.")
    world.table(OPTIMIZATION_JOB.table, ask.region).drop(name)


def _types(row: Row) -> list[str]:
    return [name for config in row["params"]["OptimizationConfigs"] for name in config]


def _told(name: str, row: Row) -> Row:
    return {
        "OptimizationJobName": name,
        "OptimizationJobArn": row["arn"],
        "OptimizationJobStatus": row["status"],
        "CreationTime": row["created"],
        "LastModifiedTime": row["modified"],
        "OptimizationStartTime": row.get("started"),
        "OptimizationEndTime": row.get("ended"),
    }


def _asked(world: World, ask: Ask) -> tuple[str, Row]:
    name = ask.params["OptimizationJobName"]
    row = world.table(OPTIMIZATION_JOB.table, ask.region).get(name)
    if row is None:
        raise ApiError("ResourceNotFound", f"Could not find requested job with name: {name}")
    return name, row


def _put(world: World, ask: Ask, name: str, row: Row) -> None:
    row["modified"] = world.clock.now()
    world.table(OPTIMIZATION_JOB.table, ask.region).put(name, row)
    world.optimizations.begin(ask.region, name)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateOptimizationJob": create_optimization_job,
    "DescribeOptimizationJob": describe_optimization_job,
    "ListOptimizationJobs": list_optimization_jobs,
    "StopOptimizationJob": stop_optimization_job,
    "DeleteOptimizationJob": delete_optimization_job,
}
