"""No process that a handler started outlives its worker, however the worker or the server ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.running_server import RunningServer, launched, serving, write_model

pytestmark = pytest.mark.worker

# Five children: one holds the worker's pipes, one ignores SIGTERM, one forks, one started a session of its own, and one
# has an empty environment.
FAMILY = """
import os, signal, subprocess, sys, time
from djl_python import Output

SLEEP = "import time; time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
FORKS = "import os; os.fork(); " + SLEEP

def start():
    run = [sys.executable, "-c"]
    pids = [subprocess.Popen(run + [SLEEP]).pid, subprocess.Popen(run + [STUBBORN]).pid]
    pids.append(subprocess.Popen(run + [FORKS]).pid)
    pids.append(subprocess.Popen(run + [SLEEP], start_new_session=True).pid)
    pids.append(subprocess.Popen(run + [SLEEP], env={}).pid)
    return pids

PIDS = start()

def handle(inputs):
    if inputs.is_empty():
        return None
    asked = inputs.get_as_json()
    if asked.get("do") == "exit":
        os._exit(5)
    return Output().add_as_json({"worker": os.getpid(), "children": PIDS})
"""
TIMEOUT = 30.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[RunningServer]:
    with serving(write_model(tmp_path / "m", FAMILY)) as served:
        yield served


def family(served: RunningServer) -> list[psutil.Process]:
    """The pids of the worker and of all its descendants."""
    [worker] = served.send_request({"do": "status"})["workers"]
    deadline = time.monotonic() + TIMEOUT
    while len(found := psutil.Process(worker["pid"]).children(recursive=True)) < 6:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return [psutil.Process(worker["pid"]), *found]


def wait_until_ended(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while left := [process for process in processes if is_running(process)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def stop_over_control(served: RunningServer) -> None:
    served.send_request({"do": "stop"})


def sigterm(served: RunningServer) -> None:
    served.process.terminate()


def sigkill(served: RunningServer) -> None:
    served.process.kill()


def sigkill_while_stopped(served: RunningServer) -> None:
    served.process.send_signal(signal.SIGSTOP)
    served.process.kill()


@pytest.mark.parametrize("end", [stop_over_control, sigterm, sigkill, sigkill_while_stopped])
def test_no_process_remains_when_the_server_ends(
    served: RunningServer, end: Callable[[RunningServer], None]
) -> None:
    found = family(served)
    end(served)
    served.wait()
    wait_until_ended(found)


def test_no_process_remains_when_the_worker_crashes_in_a_call(served: RunningServer) -> None:
    found = family(served)
    assert served.post({"do": "exit"})[0] == 503
    wait_until_ended(found)
    assert served.get("/ping")[0] == 500


def test_no_process_remains_when_an_idle_worker_is_killed(served: RunningServer) -> None:
    found = family(served)
    found[0].kill()
    wait_until_ended(found)
    assert served.get("/ping")[0] == 200


def test_no_process_remains_when_the_model_is_removed(served: RunningServer) -> None:
    found = family(served)
    connection = served.connect()
    connection.request("DELETE", "/models/m")
    assert connection.getresponse().status == 200
    wait_until_ended(found)


def test_no_process_remains_when_the_model_fails_to_load(tmp_path: Path) -> None:
    handler = f"{FAMILY}\nprint('family', *PIDS, flush=True)\nraise RuntimeError('no')"
    with launched(write_model(tmp_path / "m", handler)) as served:
        assert served.wait() == 1
        [line] = [line for line in served.text.splitlines() if "family" in line]
        pids = [int(word) for word in line.rpartition("family")[2].split()]
        assert len(pids) == 5
        assert not [pid for pid in pids if psutil.pid_exists(pid) and is_running(psutil.Process(pid))]


def test_watchdog_ends_with_the_server(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", FAMILY)) as served:
        [watchdog] = [
            child
            for child in psutil.Process(served.process.pid).children()
            if "lmi_deploy.server.workers.orphan_processes" in child.cmdline()
        ]
        assert os.getsid(watchdog.pid) == watchdog.pid
        served.process.terminate()
        served.wait()
        wait_until_ended([watchdog])


def test_server_ends_its_workers_without_the_watchdog(served: RunningServer) -> None:
    found = family(served)
    for child in psutil.Process(served.process.pid).children():
        if "lmi_deploy.server.workers.orphan_processes" in child.cmdline():
            child.kill()
    served.process.terminate()
    served.wait()
    wait_until_ended(found)
