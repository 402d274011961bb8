"""`lmi bench --via job`: two processes as the machines of a processing job, each with its role and without our
packages, send one load to an endpoint."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_file import from_json
from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import Emulated, emulator
from tests.support.talking_handler import RECIPE, write_talking

pytestmark = [pytest.mark.worker, pytest.mark.landing]
TIMEOUT = 120.0
BY_JOB = ("--via", "job", "--instances", "2", "--cloudwatch-wait", "0")


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """With an endpoint, in the environment and the folder of its user."""
    home = tmp_path_factory.mktemp("home")
    write_talking(home)
    (home / "talks.yaml").write_text(RECIPE)
    body = {"messages": [{"role": "user", "content": "words 5"}], "stream": True}
    body["stream_options"] = {"include_usage": True}
    (home / "bodies.jsonl").write_text(json.dumps({"body": body}) + "\n")
    with (
        emulator(tmp_path_factory.mktemp("aws"), "--speed", "600", containers=True) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for key, value in running.environment(home).items():
            patch.setenv(key, value)
        patch.chdir(home)
        assert run(lmi, ["up", "talks.yaml", "--yes"]) == 0
        yield running


def bench(*argv: str, expected: int = 0) -> Report:
    assert run(lmi, ["bench", "talks", "--prompts", "bodies.jsonl", *BY_JOB, *argv]) == expected
    return from_json(Path("bench.json").read_text(encoding="utf-8"), "bench.json")


def remaining(aws: Emulated) -> list[str]:
    """Objects of jobs, and jobs."""
    s3, bucket = (
        aws.client("s3"),
        next(
            one["Name"]
            for one in aws.client("s3").list_buckets()["Buckets"]
            if one["Name"].startswith("lmi-")
        ),
    )
    objects = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket, Prefix="jobs/").get("Contents", ())]
    jobs = aws.client("sagemaker").list_processing_jobs()["ProcessingJobSummaries"]
    return [*objects, *(one["ProcessingJobName"] for one in jobs)]


def test_two_machines_send_two_loads_and_one_report_has_all_requests(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    report = bench(
        *("--rate", "20", "--rate", "30", "--requests", "21", "--warmup", "0", "--records", "all.jsonl")
    )
    assert [point.load.rate for point in report.points] == [20, 30]
    for point in report.points:
        assert (point.counts.sent, point.counts.succeeded, point.counts.output_tokens) == (21, 21, 105)
        assert point.metrics["ttft"].n == 21
        assert point.client.self_test_error is not None
        (together,) = [check for check in point.checks if check.name == "machines"]
        assert "the clocks of the machines differ by" in together.text
    details = report.provenance.details
    assert details["load sent by"] == "2 x ml.c5.xlarge (processing job)"
    assert {"machine 1", "machine 2"} <= details.keys()
    assert len(Path("all.jsonl").read_text().splitlines()) == 1 + 42
    told = capsys.readouterr().err
    assert "2 x ml.c5.xlarge (a processing job) send the load: at most $" in told
    assert remaining(aws) == []


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        (("-c", "2", "--ramp-to", "6", "--ramp-steps", "3"), [2, 4, 6]),
        pytest.param(
            ("--rate", "4", "--ramp-to", "24", "--arrivals", "constant"),
            [5, 7, 9, 11, 13, 15, 17, 19, 21, 23],
            marks=pytest.mark.long,
        ),
    ],
    ids=["closed", "open"],
)
def test_two_machines_send_one_ramp(aws: Emulated, flags: tuple[str, ...], asked: list[float]) -> None:
    bench(*flags, "--duration", "6", "--warmup", "0")
    report = from_json(Path("bench.json").read_text(encoding="utf-8"), "bench.json")
    (point,) = report.points
    assert [one.asked for one in point.ramp] == pytest.approx(asked, rel=0.02)
    assert point.counts.succeeded == point.counts.sent > 0
    if (
        point.load.kind == "open"
    ):  # each request at its time, whatever the machine has to do: 14 a second on average
        assert point.counts.sent == pytest.approx(6 * 14, abs=2)
        sent = [one.sent for one in point.ramp]
        assert sum(sent[:5]) < sum(sent[5:])
    assert remaining(aws) == []


def test_ctrl_c_stops_the_job_and_reports_what_was_measured(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own, which gets the signal."""
    Path("bench.json").unlink(missing_ok=True)
    running = begun("-c", "2", "--duration", "600", "--warmup", "0")
    read_until(running, "responses")
    running.send_signal(signal.SIGINT)
    told = running.communicate(timeout=TIMEOUT)[1].decode()
    assert running.returncode == 0, told
    report = from_json(Path("bench.json").read_text(encoding="utf-8"), "bench.json")
    assert report.interrupted
    (point,) = report.points
    assert point.counts.succeeded > 0
    assert remaining(aws) == []


def test_killed_run_leaves_a_job_that_gc_stops_without_the_endpoint(aws: Emulated) -> None:
    running = begun("-c", "2", "--duration", "600", "--warmup", "0")
    read_until(running, "waiting for 2 machines")
    running.kill()
    running.communicate(timeout=TIMEOUT)
    (job, *objects) = reversed(remaining(aws))
    assert job.startswith("talks-")
    assert objects
    # Its process is gone from this machine, so its lock is free.
    assert run(lmi, ["gc", "--yes"]) == 0
    assert remaining(aws) == []
    assert run(lmi, ["status", "talks"]) == 0


def begun(*argv: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lmi_deploy", "bench", "talks", "--prompts", "bodies.jsonl", *BY_JOB]
    return subprocess.Popen([*command, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def read_until(running: subprocess.Popen[bytes], words: str) -> None:
    """Its lines on stderr."""
    assert running.stderr is not None
    seen = []
    for line in running.stderr:
        seen.append(line.decode())
        if words in seen[-1]:
            return
    raise AssertionError("".join(seen))
