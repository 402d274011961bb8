"""Optimization jobs: accepted, listed, timed, stopped; nothing is optimized."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.emulator_process import BUCKET, Emulated


def job(aws: Emulated, name: str, **more: Any) -> dict[str, Any]:
    return {
        "OptimizationJobName": name,
        "RoleArn": aws.role(),
        "ModelSource": {"S3": {"S3Uri": f"s3://{BUCKET}/weights/"}},
        "DeploymentInstanceType": "ml.g5.12xlarge",
        "OptimizationConfigs": [
            {"ModelQuantizationConfig": {"OverrideEnvironment": {"OPTION_QUANTIZE": "awq"}}}
        ],
        "OutputConfig": {"S3OutputLocation": f"s3://{BUCKET}/out/"},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        **more,
    }


def until(aws: Emulated, name: str, status: str) -> dict[str, Any]:
    deadline = time.monotonic() + 20
    api = aws.client("sagemaker")
    while (found := api.describe_optimization_job(OptimizationJobName=name))[
        "OptimizationJobStatus"
    ] != status:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return dict(found)


def test_optimization_job_moves_from_in_progress_to_completed(idle_emulator: Emulated) -> None:
    api = idle_emulator.client("sagemaker")
    api.create_optimization_job(**job(idle_emulator, "slow"))
    with pytest.raises(api.exceptions.ResourceInUse, match="Job name must be unique"):
        api.create_optimization_job(**job(idle_emulator, "slow"))
    until(idle_emulator, "slow", "STARTING")
    idle_emulator.advance(121)
    until(idle_emulator, "slow", "INPROGRESS")
    with pytest.raises(api.exceptions.ClientError, match="in status INPROGRESS"):
        api.delete_optimization_job(OptimizationJobName="slow")
    idle_emulator.advance(601)
    assert until(idle_emulator, "slow", "COMPLETED")["OptimizationEndTime"]
    (description,) = api.list_optimization_jobs(NameContains="slow")["OptimizationJobSummaries"]
    assert description["OptimizationTypes"] == ["ModelQuantizationConfig"]
    api.delete_optimization_job(OptimizationJobName="slow")
    with pytest.raises(api.exceptions.ResourceNotFound):
        api.describe_optimization_job(OptimizationJobName="slow")


def test_optimization_job_can_be_stopped_or_fail(idle_emulator: Emulated) -> None:
    api = idle_emulator.client("sagemaker")
    api.create_optimization_job(**job(idle_emulator, "stopped"))
    api.stop_optimization_job(OptimizationJobName="stopped")
    until(idle_emulator, "stopped", "STOPPING")
    idle_emulator.advance(31)
    until(idle_emulator, "stopped", "STOPPED")
    failing = {
        "method": "OPTIMIZATION",
        "path": "^/provision/failing/",
        "do": {"answer": {"status": 400, "body": "no"}},
    }
    idle_emulator.fault(failing)
    api.create_optimization_job(**job(idle_emulator, "failing"))
    assert until(idle_emulator, "failing", "FAILED")["FailureReason"] == "no"
