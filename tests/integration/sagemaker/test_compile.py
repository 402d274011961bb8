"""`lmi compile` against the emulator: real processes as jobs, with the printed policies and nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.aws_requests import listed, recorded
from tests.support.emulator_process import Emulated, emulator
from tests.support.least_privilege import (
    JOB_ROLE,
    SIMULATES,
    Principal,
    ReducedPermissions,
    policies_of,
    settle,
)

pytestmark = pytest.mark.landing

SCRIPT = """\
import argparse, os, pathlib, shutil
parser = argparse.ArgumentParser()
for name in ("--model", "--output", "--batch"):
    parser.add_argument(name)
given = parser.parse_args()
print("compiling for batch", given.batch)
shutil.copytree(given.model, given.output, dirs_exist_ok=True)
pathlib.Path(given.output, "graph.bin").write_text(given.batch)
"""
BY_SCRIPT = f"""\
name: echo
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {{file: model.py}}
probe: {{body: '{{"inputs": "OK"}}'}}
compile: {{script: compile.py, arguments: {{batch: 4}}, role: {JOB_ROLE}}}
endpoint: {{role: serving}}
"""
BY_ENGINE = """\
name: whole
model_id: ./model
engine: {engine}
instance_type: {instance}
task: text-generation
tensor_parallel_degree: {degree}
container: {{version: {version}}}
compile: {{role: carrying}}
endpoint: {{role: serving}}
"""


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    folder = tmp_path_factory.mktemp("aws")
    with emulator(folder, "--speed", "1000000", "--enforce-iam", containers=True) as aws:
        yield aws


@pytest.fixture
def ada(
    enforcing: Emulated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Principal:
    settle(enforcing, monkeypatch, tmp_path)
    Path("compile.py").write_text(SCRIPT)
    return Principal(enforcing, capsys, monkeypatch)


def granted(ada: Principal, recipe: str) -> None:
    Path("r.yaml").write_text(recipe)
    policies_of(ada, "r.yaml")
    ada.enter()
    ada.grant()


def run_granted(ada: Principal, *argv: str) -> str:
    code, output = ada.lmi(*argv)
    assert code == 0, output
    assert "not authorized" not in output
    assert "not checked" not in output
    return output


def test_printed_policies_suffice_for_a_script(ada: Principal) -> None:
    granted(ada, BY_SCRIPT)
    assert "compiling for batch 4" in run_granted(ada, "compile", "r.yaml", "--yes")
    assert "already compiled" in run_granted(ada, "compile", "r.yaml")
    run_granted(ada, "up", "r.yaml", "--yes")
    run_granted(ada, "down", "echo", "--yes", "--purge")
    assert recorded() - listed() == set()
    assert "sagemaker CreateProcessingJob" in recorded()
    assert ada.lmi("plan", "r.yaml")[0] == 2


@pytest.mark.parametrize(
    ("recipe", "request_sent"),
    [
        (
            BY_ENGINE.format(engine="neuronx", instance="ml.inf2.8xlarge", degree=2, version="0.28.0"),
            "CreateOptimizationJob",
        ),
        (
            BY_ENGINE.format(engine="deepspeed", instance="ml.g5.12xlarge", degree=4, version="0.27.0"),
            "CreateProcessingJob",
        ),
    ],
    ids=["optimization", "partition"],
)
def test_printed_policies_suffice_for_the_compiler_of_an_engine(
    ada: Principal, recipe: str, request_sent: str
) -> None:
    Path("model/config.json").write_text('{"architectures": ["GPTJForCausalLM"], "model_type": "gptj"}')
    granted(ada, recipe)
    output = run_granted(ada, "compile", "r.yaml", "--yes", "--json")
    assert "compiled/rank-0.json" in output
    assert f"sagemaker {request_sent}" in recorded()
    assert recorded() - listed() == set()


def test_key_and_local_disks_go_together(ada: Principal) -> None:
    """SageMaker refuses VolumeKmsKeyId for an instance type with local disks: only the result is encrypted."""
    key = ada.aws.client("kms").create_key()["KeyMetadata"]["KeyId"]
    recipe = BY_SCRIPT.replace("batch: 4}", "batch: 4}, instance_type: ml.g5.xlarge")
    granted(ada, recipe.replace("endpoint: {", f"endpoint: {{kms_key: {key}, "))
    assert "on 1 x ml.g5.xlarge" in run_granted(ada, "compile", "r.yaml", "--yes")


@contextmanager
def compile_at_work(ada: Principal) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that waits for its job, and the name of the job."""
    argv = [sys.executable, "-m", "lmi_deploy", "compile", "r.yaml", "--yes"]
    output = subprocess.PIPE
    with subprocess.Popen(argv, env=os.environ, text=True, stdout=output, stderr=output) as process:
        try:
            deadline, found = time.monotonic() + 60, list[str]()
            while not found:
                assert time.monotonic() < deadline
                assert process.poll() is None, process.communicate()
                time.sleep(0.1)
                found = at_work(ada)
            yield process, found[0]
        finally:
            process.kill()


def at_work(ada: Principal) -> list[str]:
    sagemaker = ada.aws.client("sagemaker")
    processing = sagemaker.list_processing_jobs(StatusEquals="InProgress")["ProcessingJobSummaries"]
    optimizing = sagemaker.list_optimization_jobs()["OptimizationJobSummaries"]
    return [job["ProcessingJobName"] for job in processing] + [
        job["OptimizationJobName"]
        for job in optimizing
        if job["OptimizationJobStatus"] in ("STARTING", "INPROGRESS", "STOPPING")
    ]


def test_terminated_compile_leaves_a_job_that_down_stops(ada: Principal) -> None:
    """The process ends as in a cancelled CI job; the job is a real process, and ends with `down`."""
    granted(ada, BY_SCRIPT)
    Path("compile.py").write_text("import time\ntime.sleep(600)\n")
    with compile_at_work(ada) as (process, job):
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
    assert f"the job {job} still runs, and costs money" in error
    assert at_work(ada) == [job]
    assert f"{job} is InProgress, 1 x ml.m5.xlarge" in ada.lmi("status", "echo")[1]
    stopping = ReducedPermissions("deployer", "RunCompileJob", "sagemaker:StopProcessingJob")
    ada.grant(stopping)
    code, output = ada.lmi("down", "echo", "--yes")
    assert code != 0
    assert stopping.action in output
    assert at_work(ada) == [job]
    ada.grant()
    assert f"stop the compile job {job}" in run_granted(ada, "down", "echo", "--yes")
    assert at_work(ada) == []
    assert recorded() - listed() == set()


def test_down_stops_an_optimization_job_with_the_printed_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On an emulator where such a job takes 30 s."""
    with emulator(tmp_path, "--speed", "20", "--enforce-iam", containers=True) as aws:
        (tmp_path / "here").mkdir()
        settle(aws, monkeypatch, tmp_path / "here")
        ada = Principal(aws, capsys, monkeypatch)
        Path("model/config.json").write_text('{"architectures": ["GPTJForCausalLM"], "model_type": "gptj"}')
        granted(
            ada, BY_ENGINE.format(engine="neuronx", instance="ml.inf2.8xlarge", degree=2, version="0.28.0")
        )
        with compile_at_work(ada) as (process, job):
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        assert f"{job} is InProgress, for ml.inf2.8xlarge" in ada.lmi("status", "whole")[1]
        assert f"stop the compile job {job}" in run_granted(ada, "down", "whole", "--yes")
        assert at_work(ada) == []
        found = aws.client("sagemaker").describe_optimization_job(OptimizationJobName=job)
        assert found["OptimizationJobStatus"] == "STOPPED"


@pytest.mark.parametrize(
    "less",
    [
        ReducedPermissions("deployer", "RunCompileJob", "sagemaker:CreateProcessingJob"),
        ReducedPermissions("deployer", "RunCompileJob", "sagemaker:DescribeProcessingJob"),
        ReducedPermissions("deployer", "RunCompileJob", "sagemaker:AddTags"),
        ReducedPermissions("deployer", "HandOverCompileRole", "iam:PassRole"),
        ReducedPermissions("deployer", "HandCompileJobItsOrder", "s3:PutObject"),
        ReducedPermissions("deployer", "HandCompileJobItsOrder", "s3:GetObject"),
        ReducedPermissions("compile", "ReadModel", "s3:GetObject"),
        ReducedPermissions("compile", "WriteResult", "s3:PutObject"),
        ReducedPermissions("compile", "LookIntoBucket", "s3:ListBucket"),
    ],
    ids=str,
)
def test_missing_permission_of_a_compile_is_reported(ada: Principal, less: ReducedPermissions) -> None:
    granted(ada, BY_SCRIPT)
    ada.grant(less)
    code, output = ada.lmi("compile", "r.yaml", "--yes")
    assert code != 0
    assert less.action in output, output
    ada.grant(less, ReducedPermissions("deployer", "CheckRights", SIMULATES))
    code, output = ada.lmi("compile", "r.yaml", "--yes")
    assert code != 0, output


def test_compile_needs_no_right_to_read_its_log(ada: Principal) -> None:
    """The job costs: it is not left alone because its lines cannot be shown."""
    granted(ada, BY_SCRIPT)
    ada.grant(ReducedPermissions("deployer", "ReadCompileLogs", "logs:FilterLogEvents"))
    code, output = ada.lmi("compile", "r.yaml", "--yes")
    assert code == 0, output
    assert "the job's log cannot be read: " in output
    assert "logs:FilterLogEvents" in output


@pytest.mark.parametrize("verb", ["Create", "Describe"])
def test_missing_permission_of_an_optimization_job_is_reported(ada: Principal, verb: str) -> None:
    Path("model/config.json").write_text('{"architectures": ["GPTJForCausalLM"], "model_type": "gptj"}')
    granted(ada, BY_ENGINE.format(engine="neuronx", instance="ml.inf2.8xlarge", degree=2, version="0.28.0"))
    less = ReducedPermissions("deployer", "RunCompileJob", f"sagemaker:{verb}OptimizationJob")
    ada.grant(less, ReducedPermissions("deployer", "CheckRights", SIMULATES))
    code, output = ada.lmi("compile", "r.yaml", "--yes")
    assert code != 0
    assert less.action in output, output
