"""Real processes of `lmi` and real signals: SIGTERM and SIGHUP end each command like Ctrl-C; a closed pipe
ends no command that changes something."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.sagemaker.test_killed_processes import (
    DOWN,
    FIRST,
    NAME,
    RECIPE,
    REGION,
    ROOT,
    TIMEOUT,
    UP,
    KilledRun,
    killed_run,
)

__all__ = ["killed_run"]  # created by the fixture
LOCAL = "name: here\nmodel_id: org/tiny\nengine: accelerate\nendpoint: {target: local}\n"
LMI = (sys.executable, "-m", "lmi_deploy.cli")
SIGNALS = (signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.landing))
HANGS = {"hang": {"seconds": 60}}


@pytest.fixture
def unresponsive_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Hub that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield


def started(run: KilledRun, *argv: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LMI, *argv],
        cwd=run.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def signalled(process: subprocess.Popen[str], number: signal.Signals) -> dict[str, Any]:
    """The result of a command after the signal was sent twice, as CI systems do."""
    process.send_signal(number)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    with process:
        out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, err) == (130, ""), (process.returncode, out, err)
    result = json.loads(out.splitlines()[-1])
    assert result["event"] == "result"
    assert (result["ok"], result["error"]["kind"], result["error"]["exit_code"]) == (
        False,
        "Interrupted",
        130,
    )
    error: dict[str, Any] = result["error"]
    return error


def is_locked(run: KilledRun) -> bool:
    try:
        return bool(run.lock())
    except run.aws.client("s3").exceptions.NoSuchKey:
        return False


def waits_for(process: subprocess.Popen[str], event: str, key: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        result = json.loads(line)
        if result["event"] == event and result.get("key", "").startswith(key):
            return
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_during_up_down_or_wait_reports_the_endpoint_and_its_cost(
    killed_run: KilledRun, number: signal.Signals
) -> None:
    killed_run.recipe(RECIPE)
    up = started(killed_run, *UP, "--json")
    waits_for(up, "progress", "AwaitService")
    error = signalled(up, number)
    assert error["message"].startswith(f"interrupted: the endpoint {NAME} is Creating and still costs $")
    assert f"`lmi down {NAME} --region {REGION}` deletes it" in error["message"]
    assert not is_locked(killed_run)

    wait = started(killed_run, "wait", NAME, "--json")
    waits_for(wait, "progress", "AwaitService")
    assert f"the endpoint {NAME} is Creating and still costs $" in signalled(wait, number)["message"]
    assert not is_locked(killed_run)

    down = started(killed_run, *DOWN, "--json")
    waits_for(down, "progress", "DeleteEndpoint")
    assert f"interrupted: the endpoint {NAME} is " in signalled(down, number)["message"]
    assert not is_locked(killed_run)
    killed_run.done(*DOWN)


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_before_a_change_reports_that_nothing_changed(
    killed_run: KilledRun, unresponsive_hub: None, number: signal.Signals
) -> None:
    killed_run.recipe(RECIPE)
    killed_run.done("weights", "push", "tiny.yaml", "--create-bucket")
    killed_run.aws.fault({"headers": {"X-Amz-Target": "DescribeEndpoint$"}, "times": None, "do": HANGS})
    for argv in (("plan", "tiny.yaml"), ("status", NAME), UP):
        process = started(killed_run, *argv, "--json")
        time.sleep(3)
        assert process.poll() is None
        error = signalled(process, number)
        assert error["message"] == "interrupted"
        assert ("nothing was changed" in error["hint"]) == (argv == UP)
    (killed_run.root / "here.yaml").write_text(LOCAL)
    local = started(killed_run, "up", "here.yaml", "--yes", "--json")
    time.sleep(3)
    assert local.poll() is None
    assert "nothing was changed" in signalled(local, number)["hint"]


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_during_a_push_ends_it_and_the_next_push_continues(
    killed_run: KilledRun, number: signal.Signals
) -> None:
    killed_run.recipe(RECIPE)
    slow = {"method": "PUT", "path": "/weights/", "times": None, "do": HANGS}
    killed_run.aws.client("s3").create_bucket(Bucket=f"lmi-{os.getpid()}")
    killed_run.aws.fault(slow)
    push = started(killed_run, "weights", "push", "tiny.yaml", "--bucket", f"lmi-{os.getpid()}", "--json")
    waits_for(push, "progress", "push")
    error = signalled(push, number)
    assert error["message"].startswith("interrupted: 0 B of ")
    assert "lmi gc" in error["hint"]
    killed_run.aws.no_faults()
    killed_run.done("weights", "push", "tiny.yaml", "--bucket", f"lmi-{os.getpid()}")


def test_signal_ignored_at_start_stays_ignored(killed_run: KilledRun) -> None:
    """nohup lmi up &"""
    killed_run.recipe(RECIPE)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        up = started(killed_run, *UP, "--json")
    finally:
        signal.signal(signal.SIGHUP, before)
    waits_for(up, "progress", "AwaitService")
    up.send_signal(signal.SIGHUP)
    killed_run.aws.advance(3600)
    with up:
        out, err = up.communicate(timeout=TIMEOUT)
    assert (up.returncode, err) == (0, ""), out


@pytest.mark.parametrize(("streams", "as_json"), [("stdout", ("--json",)), ("both", ())])
def test_change_continues_when_stdout_or_stderr_is_closed(
    killed_run: KilledRun, streams: str, as_json: tuple[str, ...]
) -> None:
    killed_run.recipe(FIRST)
    assert _run_without_reader(killed_run, streams, *UP, *as_json) == (0, "")
    killed_run.done("status", NAME)
    assert not is_locked(killed_run)
    assert _run_without_reader(killed_run, streams, *DOWN, *as_json) == (0, "")
    assert {kind: names for kind, names in killed_run.remaining().items() if names} == {}


def test_failure_with_closed_streams_keeps_its_exit_code(killed_run: KilledRun) -> None:
    killed_run.recipe(FIRST + "endpoint: {")
    assert _run_without_reader(killed_run, "both", "plan", "tiny.yaml") == (2, "")
    assert _run_without_reader(killed_run, "both", *UP) == (2, "")


def test_read_only_command_ends_quietly_when_stdout_is_closed(killed_run: KilledRun) -> None:
    killed_run.recipe(FIRST)
    assert _run_without_reader(killed_run, "stdout", "plan", "tiny.yaml", "--json") == (
        128 + signal.SIGPIPE,
        "",
    )


def _run_without_reader(run: KilledRun, streams: str, *argv: str) -> tuple[int, str]:
    """Exit code of a command whose output is closed before its first word; and its stderr, which is empty
    with --json."""
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [*LMI, *argv],
        cwd=run.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer if streams == "both" else subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    with process:
        deadline = time.monotonic() + TIMEOUT
        while process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
            run.aws.advance(60)
        output = process.stderr.read() if process.stderr else ""
    return process.returncode, output if "--json" in argv else ""
