"""Processes are identified by pid and start time, and end with all processes that they started."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.host.clock import SystemClock
from lmi_deploy.host.processes import alive, end, identity, rss, session_members, start_detached
from lmi_deploy.ports.processes import Process

CLOCK = SystemClock()
STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
CHILD = "import time; time.sleep(60)"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
print(child.pid, flush=True)
child.wait()
"""


def _start(tmp_path: Path, code: str, **environ: str) -> Process:
    return start_detached(
        [sys.executable, "-c", code], log=tmp_path / "log", cwd=tmp_path, environ={**os.environ, **environ}
    )


def _await_text(path: Path) -> str:
    deadline = CLOCK.monotonic() + 60
    while not path.read_text().endswith("\n"):
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep(0.01)
    return path.read_text().strip()


def _wait_until_ended(pid: int) -> None:
    deadline = CLOCK.monotonic() + 60
    while identity(pid) is not None:
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep(0.01)


def test_detached_process_has_its_own_session_log_folder_and_environment(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    code = "import os,sys; print(os.getsid(0)==os.getpid(), os.getcwd(), os.environ['MARK'], sys.stdin.read()=='')"
    process = _start(tmp_path, code, MARK="m")
    _wait_until_ended(process.pid)
    assert (tmp_path / "log").read_text() == f"before\nTrue {tmp_path} m True\n"
    assert not alive(process)


def test_process_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    process = _start(tmp_path, STUBBORN)
    _await_text(tmp_path / "log")
    assert alive(process)
    assert rss(process.pid) > 0
    end(process, grace=0.1, clock=CLOCK)
    assert not alive(process)
    assert rss(process.pid) == 0


def test_ending_a_process_twice_is_harmless(tmp_path: Path) -> None:
    process = _start(tmp_path, CHILD)
    end(process, grace=5, clock=CLOCK)
    end(process, grace=5, clock=CLOCK)
    assert not alive(process)


def test_end_also_ends_children_that_outlive_their_leader(tmp_path: Path) -> None:
    process = _start(tmp_path, PARENT)
    child = int(_await_text(tmp_path / "log"))
    assert session_members(process) == (child,)
    end(process, grace=5, clock=CLOCK)
    _wait_until_ended(child)


def test_children_of_a_killed_leader_are_found_and_foreign_processes_not(tmp_path: Path) -> None:
    process = _start(tmp_path, PARENT)
    child = int(_await_text(tmp_path / "log"))
    os.kill(process.pid, signal.SIGKILL)
    _wait_until_ended(process.pid)
    boot, _, start = process.started.rpartition("/")
    for foreign in ("another-boot/1", f"{boot}/{float(start) + 1e9}"):
        assert session_members(replace(process, started=foreign)) == ()
    end(process, grace=5, clock=CLOCK)
    _wait_until_ended(child)


def test_zombie_counts_as_ended(tmp_path: Path) -> None:
    code = "import os, time; pid = os.fork() or os._exit(0); print(pid, flush=True); time.sleep(60)"
    process = _start(tmp_path, code)
    zombie = int(_await_text(tmp_path / "log"))
    _wait_until_ended(zombie)
    os.kill(zombie, 0)  # its pid is still taken
    end(process, grace=5, clock=CLOCK)


@pytest.mark.parametrize("started", ["", "another-boot/1"])
def test_process_that_reused_the_pid_is_left_running(tmp_path: Path, started: str) -> None:
    process = _start(tmp_path, CHILD)
    foreign = replace(process, started=started)
    assert not alive(foreign)
    end(foreign, grace=0, clock=CLOCK)
    assert session_members(foreign) == ()
    assert alive(process)
    end(process, grace=5, clock=CLOCK)


def test_unused_pid_has_no_identity() -> None:
    assert identity(2**22 + 1) is None
