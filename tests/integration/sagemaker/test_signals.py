"""Real processes of `lmi` and real signals: SIGTERM and SIGHUP end each command as Ctrl-C does; a closed pipe ends none
that changes something."""

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
    PATIENCE,
    RECIPE,
    ROOT,
    UP,
    Life,
    life,
)

__all__ = ["life"]  # the fixture
LOCAL = "name: here\nmodel_id: org/tiny\nengine: accelerate\nendpoint: {target: local}\n"
LMI = (sys.executable, "-m", "lmi_deploy.cli")
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
HANGS = {"hang": {"seconds": 60}}


@pytest.fixture
def mute_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Hub that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield


def started(life: Life, *argv: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LMI, *argv],
        cwd=life.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def signalled(process: subprocess.Popen[str], number: signal.Signals) -> dict[str, Any]:
    """The result of a command that was sent the signal, twice, as CI systems do."""
    process.send_signal(number)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    with process:
        out, err = process.communicate(timeout=PATIENCE)
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


def is_locked(life: Life) -> bool:
    try:
        return bool(life.lock())
    except life.aws.client("s3").exceptions.NoSuchKey:
        return False


def waits_for(process: subprocess.Popen[str], event: str, key: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == event and told.get("key", "").startswith(key):
            return
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_up_and_down_and_wait_with_what_stands_and_costs(
    life: Life, number: signal.Signals
) -> None:
    life.recipe(RECIPE)
    up = started(life, *UP, "--json")
    waits_for(up, "progress", "AwaitService")
    error = signalled(up, number)
    assert error["message"].startswith(f"interrupted: the endpoint {NAME} is Creating and goes on costing $")
    assert f"`lmi down {NAME}` ends it" in error["message"]
    assert not is_locked(life)

    wait = started(life, "wait", NAME, "--json")
    waits_for(wait, "progress", "AwaitService")
    assert f"the endpoint {NAME} is Creating and goes on costing $" in signalled(wait, number)["message"]
    assert not is_locked(life)

    down = started(life, *DOWN, "--json")
    waits_for(down, "progress", "DeleteEndpoint")
    assert f"interrupted: the endpoint {NAME} is " in signalled(down, number)["message"]
    assert not is_locked(life)
    life.done(*DOWN)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_what_changes_nothing(life: Life, mute_hub: None, number: signal.Signals) -> None:
    life.recipe(RECIPE)
    life.done("weights", "push", "tiny.yaml", "--create-bucket")
    life.aws.fault({"headers": {"X-Amz-Target": "DescribeEndpoint$"}, "times": None, "do": HANGS})
    for argv in (("plan", "tiny.yaml"), ("status", NAME), UP):
        process = started(life, *argv, "--json")
        time.sleep(3)
        assert process.poll() is None
        error = signalled(process, number)
        assert error["message"] == "interrupted"
        assert ("nothing was begun" in error["hint"]) == (argv == UP)
    (life.root / "here.yaml").write_text(LOCAL)
    here = started(life, "up", "here.yaml", "--yes", "--json")
    time.sleep(3)
    assert here.poll() is None
    assert "nothing was begun" in signalled(here, number)["hint"]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_push_which_goes_on_later(life: Life, number: signal.Signals) -> None:
    life.recipe(RECIPE)
    slow = {"method": "PUT", "path": "/weights/", "times": None, "do": HANGS}
    life.aws.client("s3").create_bucket(Bucket=f"lmi-{os.getpid()}")
    life.aws.fault(slow)
    push = started(life, "weights", "push", "tiny.yaml", "--bucket", f"lmi-{os.getpid()}", "--json")
    waits_for(push, "progress", "push")
    error = signalled(push, number)
    assert error["message"].startswith("interrupted: 0 bytes of ")
    assert "lmi gc" in error["hint"]
    life.aws.no_faults()
    life.done("weights", "push", "tiny.yaml", "--bucket", f"lmi-{os.getpid()}")


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(life: Life) -> None:
    """nohup lmi up &"""
    life.recipe(RECIPE)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        up = started(life, *UP, "--json")
    finally:
        signal.signal(signal.SIGHUP, before)
    waits_for(up, "progress", "AwaitService")
    up.send_signal(signal.SIGHUP)
    life.aws.advance(3600)
    with up:
        out, err = up.communicate(timeout=PATIENCE)
    assert (up.returncode, err) == (0, ""), out


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize("streams", ["stdout", "both"])
def test_a_change_goes_on_to_its_end_without_a_reader(
    life: Life, as_json: tuple[str, ...], streams: str
) -> None:
    life.recipe(FIRST)
    assert _unread(life, streams, *UP, *as_json) == (0, "")
    life.done("status", NAME)
    assert not is_locked(life)
    assert _unread(life, streams, *DOWN, *as_json) == (0, "")
    assert {kind: names for kind, names in life.stands().items() if names} == {}


def test_a_failure_without_a_reader_has_its_exit_code(life: Life) -> None:
    life.recipe(FIRST + "endpoint: {")
    assert _unread(life, "both", "plan", "tiny.yaml") == (2, "")
    assert _unread(life, "both", *UP) == (2, "")


def test_what_only_reads_ends_quietly_without_a_reader(life: Life) -> None:
    life.recipe(FIRST)
    assert _unread(life, "stdout", "plan", "tiny.yaml", "--json") == (128 + signal.SIGPIPE, "")


def _unread(life: Life, streams: str, *argv: str) -> tuple[int, str]:
    """Exit code of a command whose reader is gone before its first word; and stderr as JSON has it: nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [*LMI, *argv],
        cwd=life.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer if streams == "both" else subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    with process:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
            life.aws.advance(60)
        said = process.stderr.read() if process.stderr else ""
    return process.returncode, said if "--json" in argv else ""
