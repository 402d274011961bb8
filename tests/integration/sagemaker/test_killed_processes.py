"""Real processes, real signals, a running emulator: the process ends before each action, then after it.

The whole matrix is tests/functional/sagemaker/test_crash_matrix.py; this test shows that its assumptions hold.
The processes share one deployment: each continues where the one before it ended, and the last of each row
completes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, get_args

import psutil
import pytest

from lmi_deploy.domain.sagemaker.actions import CloudAction
from tests.support.cloud_lifecycle_program import END
from tests.support.emulator_process import ACCOUNT, REGION, Emulated, emulator
from tests.support.fakes import model_files

pytestmark = pytest.mark.landing

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT = 90.0
NAME, CAPACITY = (
    "tiny",
    "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}, tags: {team: blue}}\n",
)
RECIPE = """\
name: tiny
model_id: ./model
engine: accelerate
instance_type: ml.g5.xlarge
probe: {body: '{"inputs": "OK"}', expect: OK}
"""
FIRST = RECIPE + "endpoint: {tags: {shift: night}}\n"
CHANGED = RECIPE + CAPACITY + "options: {dtype: fp32}\nttl: 8h\n"
UP, DOWN = ("up", "tiny.yaml", "--yes"), ("down", NAME, "--yes", "--purge", "--logs")
SCALE, SCALED = ("scale", NAME, "2", "--yes"), ("SetInstanceCount",)
FIRST_UP = (
    *("MakeBucket", "PushWeights", "PutArtifact", "CreateModel", "CreateEndpointConfig", "CreateEndpoint"),
    *("AwaitService", "ProbeEndpoint"),
)
CHANGE = ("SetExpiry", "UpdateEndpoint", "SetScaling", "TagEndpoint", "UntagEndpoint")
TEARDOWN = (
    *("RemoveScaling", "DeleteEndpoint", "DeleteEndpointConfig", "DeleteModel", "RemoveArtifact"),
    *("DeleteLogs", "DeleteWeights", "RemoveDeployment"),
)
BY_JOB = {"RunTransferJob", "StopTransferJob"}
"""Not here: a job is a program in an environment of its own
(tests/contract/sagemaker/test_processing_jobs.py)."""
OF_OTHER_TESTS = {
    *("MakeRepository", "PushImage", "DeleteImage", "DeleteRepository"),
    *("RunCompileJob", "StopCompileJob", "ScheduleDeletion", "RemoveSchedule", "DeleteAsyncRequests"),
    *(
        "RemoveDashboard",
        "AdoptResource",
        "RemoveForeignScaling",
        "CreateSharedEndpoint",
        "DeleteSharedEndpoint",
    ),
    *("CreateInferenceComponent", "UpdateInferenceComponent", "AwaitInferenceComponent"),
    *("DeleteInferenceComponent", "SetCopyCount", "SetAlarms", "RemoveAlarms"),
    *("PackAdapter", "CreateAdapterComponent", "UpdateAdapterComponent", "DeleteAdapterComponent"),
    "SetTraffic",
}
"""They need a registry, a compiler, a role, an asynchronous endpoint, a dashboard, a topic, an endpoint of another
tool or a shared one, an adapter, a second version: the crash matrix ends the process before, in and after each of them.
"""
LOCKED = (f"lmi-{ACCOUNT}-{REGION}-an", f"deployments/{NAME}/lock.json")
WAITS = ("... wait until", "... delete the endpoint", "... update the endpoint", "... set tiny to")
"""The output at which the emulator's clock is advanced."""


@dataclass
class KilledRun:
    """One deployment; every command on it is a process."""

    aws: Emulated
    root: Path

    def lmi(self, *argv: str, end: str = "") -> tuple[int, str]:
        """Exit code and output; the clock is advanced as soon as the command waits for an endpoint."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.cloud_lifecycle_program", *argv],
            cwd=self.root,
            env={**os.environ, END: end, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self.ended(process, WAITS)

    def ended(self, process: subprocess.Popen[str], waits: Iterable[str]) -> tuple[int, str]:
        """Exit code and output; the clock is advanced as soon as the output contains one of `waits`."""
        lines: list[str] = []
        with process:
            assert process.stdout is not None
            reader = threading.Thread(target=lines.extend, args=(process.stdout,))
            reader.start()
            deadline = time.monotonic() + TIMEOUT
            while process.poll() is None:
                assert time.monotonic() < deadline, "".join(lines)
                time.sleep(0.05)
                if any(word in line for line in [*lines] for word in waits):
                    self.aws.advance(60)
            reader.join()
        return process.returncode, "".join(lines)

    def crashed(self, argv: tuple[str, ...], end: str) -> None:
        number = end.split()[0]
        code, output = self.lmi(*argv, end=end)
        assert code == (-signal.SIGKILL if number == "SIGKILL" else 130), f"{end}: {code}\n{output}"
        if number == "SIGINT":
            assert "next: " in output

    def lock(self) -> dict[str, Any]:
        found = self.aws.client("s3").get_object(Bucket=LOCKED[0], Key=LOCKED[1])
        lock_file: dict[str, Any] = json.loads(found["Body"].read())
        return lock_file

    def relock(self, **changed: object) -> None:
        """Makes the lock look like that of another owner."""
        lock_file = json.dumps({**self.lock(), **changed})
        self.aws.client("s3").put_object(Bucket=LOCKED[0], Key=LOCKED[1], Body=lock_file.encode())

    def done(self, *argv: str) -> str:
        code, output = self.lmi(*argv)
        assert code == 0, output
        return output

    def recipe(self, text: str) -> None:
        (self.root / "tiny.yaml").write_text(text)

    def remaining(self) -> dict[str, list[str]]:
        """The names of all resources in the account."""
        sagemaker = self.aws.client("sagemaker")
        scaling = self.aws.client("application-autoscaling")
        s3 = self.aws.client("s3")
        objects = [
            item["Key"]
            for bucket in s3.list_buckets()["Buckets"]
            for item in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", [])
        ]
        targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
        alarms = self.aws.client("cloudwatch").describe_alarms()["MetricAlarms"]
        groups = self.aws.client("logs").describe_log_groups()["logGroups"]
        return {
            "endpoints": [item["EndpointName"] for item in sagemaker.list_endpoints()["Endpoints"]],
            "configs": [
                item["EndpointConfigName"] for item in sagemaker.list_endpoint_configs()["EndpointConfigs"]
            ],
            "models": [item["ModelName"] for item in sagemaker.list_models()["Models"]],
            "scaling": [item["ResourceId"] for item in targets],
            "alarms": [item["AlarmName"] for item in alarms],
            "groups": [item["logGroupName"] for item in groups],
            "objects": objects,
        }


@pytest.fixture
def killed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KilledRun]:
    with emulator(tmp_path, "--speed", "1") as aws:
        for key, value in aws.environment(tmp_path).items():
            monkeypatch.setenv(key, value)
        aws.client("logs").create_log_group(logGroupName=f"/aws/sagemaker/Endpoints/{NAME}")
        (tmp_path / "model").mkdir()
        for name, content in model_files().items():
            (tmp_path / "model" / name).write_bytes(content)
        yield KilledRun(aws, tmp_path)


@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.long) for turn in (1, 2, 3))])
def test_every_killed_action_is_recovered_by_the_next_run(killed_run: KilledRun, turn: int) -> None:
    """Signals and moments take turns from action to action; in all turns each action has every one."""
    ends = islice(cycle(("SIGKILL after", "SIGINT before", "SIGKILL before", "SIGINT after")), turn, None)
    rows = (
        (FIRST, UP, FIRST_UP),
        (CHANGED, UP, CHANGE),
        (CHANGED, SCALE, SCALED),
        (CHANGED, DOWN, TEARDOWN),
    )
    for recipe, command, actions in rows:
        killed_run.recipe(recipe)
        for action, end in zip(actions, ends, strict=False):
            killed_run.crashed(command, f"{end} {action}")
        killed_run.done(*command)
        if command == UP:
            killed_run.done("plan", "tiny.yaml", "--exit-code")
            killed_run.done("status", NAME)
            stands = killed_run.remaining()
            generations = 1 if recipe == FIRST else 2
            assert stands["endpoints"] == [NAME]
            assert [len(stands["configs"]), len(stands["models"])] == [generations, generations]
            assert len(stands["scaling"]) == generations - 1
    assert {kind: names for kind, names in killed_run.remaining().items() if names} == {}


def test_every_sagemaker_action_is_killed_once() -> None:
    tried = {*FIRST_UP, *CHANGE, *SCALED, *TEARDOWN}
    assert {action.kind for action in get_args(CloudAction)} - tried == BY_JOB | OF_OTHER_TESTS


SUSPENDED = (
    (FIRST, UP, "CreateEndpoint", DOWN),
    (FIRST.replace("night", "day") + "options: {dtype: fp16}\n", UP, "UpdateEndpoint", UP),
    (FIRST, DOWN, "DeleteEndpoint", UP),
)
"""The action before which the process is suspended, and the command of another process meanwhile."""


@pytest.mark.parametrize(("recipe", "command", "action", "meanwhile"), SUSPENDED)
def test_suspended_process_that_lost_its_lock_changes_nothing(
    killed_run: KilledRun,
    monkeypatch: pytest.MonkeyPatch,
    recipe: str,
    command: tuple[str, ...],
    action: str,
    meanwhile: tuple[str, ...],
) -> None:
    monkeypatch.setenv("LMI_LOCK_SECONDS", "2")
    if action != "CreateEndpoint":
        killed_run.recipe(FIRST)
        killed_run.done(*UP)
    killed_run.recipe(recipe)
    suspended = subprocess.Popen(
        [sys.executable, "-m", "tests.support.cloud_lifecycle_program", *command],
        cwd=killed_run.root,
        env={**os.environ, END: f"SIGSTOP before {action}", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until(lambda: psutil.Process(suspended.pid).status() == psutil.STATUS_STOPPED)
    if meanwhile == UP:
        killed_run.recipe(CHANGED)
    output = _retried_while_locked(killed_run, *meanwhile)
    assert "took over the lock of lmi " in output
    stands = killed_run.remaining()
    suspended.send_signal(signal.SIGCONT)
    output = suspended.communicate(timeout=TIMEOUT)[0]
    assert suspended.returncode == 1, output
    assert f"{NAME}: the lock was lost, it was removed; nothing was changed after that" in output
    if meanwhile == UP:
        assert f"the endpoint {NAME} is InService and still costs $" in output
    assert killed_run.remaining() == stands
    assert stands["endpoints"] == ([NAME] if meanwhile == UP else [])


def _retried_while_locked(run: KilledRun, *argv: str) -> str:
    """Repeats the command while it is refused because another process holds the lock."""
    lines: list[str] = []

    def done() -> bool:
        code, text = run.lmi(*argv)
        assert code in (0, 5), text
        lines.append(text)
        return code == 0

    until(done)
    return lines[-1]


def test_second_of_two_concurrent_ups_is_refused_with_the_lock_owner(killed_run: KilledRun) -> None:
    killed_run.recipe(RECIPE)
    first = subprocess.Popen(
        [sys.executable, "-m", "tests.support.cloud_lifecycle_program", *UP],
        cwd=killed_run.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: killed_run.remaining()["endpoints"] == [NAME])
    first.send_signal(signal.SIGSTOP)  # it holds its lock while the others run
    code, output = killed_run.lmi(*UP)
    assert code == 5, output
    assert f"{NAME}: locked by lmi up (pid {first.pid} on " in output
    assert f"lmi unlock {NAME} --region us-east-1 {killed_run.lock()['id']}" in output
    assert killed_run.lmi(*DOWN)[0] == 5
    first.kill()
    first.wait()
    output = killed_run.done(*UP)
    assert "took over the lock of lmi up" in output
    assert "its process has ended" in output
    assert killed_run.remaining()["endpoints"] == [NAME]


def test_lock_of_a_vanished_machine_is_unlocked_by_id_or_expires(killed_run: KilledRun) -> None:
    killed_run.recipe(RECIPE)
    killed_run.crashed(UP, "SIGKILL before CreateModel")
    killed_run.relock(machine="elsewhere", host="elsewhere")
    code, output = killed_run.lmi(*UP)
    assert (code, f"lmi unlock {NAME} --region us-east-1 {killed_run.lock()['id']}" in output) == (5, True), (
        output
    )
    code, output = killed_run.lmi("unlock", NAME, "00000000")
    assert (code, f"the lock is {killed_run.lock()['id']}, not 00000000" in output) == (5, True), output
    code, output = killed_run.lmi("unlock", NAME, killed_run.lock()["id"])
    assert (code, " s ago, its holder is running: lmi up" in output) == (5, True), output
    output = killed_run.done("unlock", NAME, killed_run.lock()["id"], "--force")
    assert f"{NAME} (account 123456789012, us-east-1): unlocked; it was held by lmi up" in output
    killed_run.crashed(UP, "SIGKILL before CreateModel")
    killed_run.relock(machine="elsewhere", lasts=1)
    until(lambda: killed_run.lmi(*UP)[0] == 0)
    killed_run.done(*DOWN)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)
