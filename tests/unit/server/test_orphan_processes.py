"""Remaining processes of a worker are found by session and by mark, and no others are touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

from lmi_deploy.server.workers.orphan_processes import (
    MARK,
    Leader,
    end_leftovers,
    leader_of,
    leftovers,
    unfinished,
)

SLEEPS = "import time; print(flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
FORKS = f"import os; os.fork(); {SLEEPS}"


@contextmanager
def running(
    program: str, *, session: bool = True, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        start_new_session=session,
        env={**os.environ, **(environ or {})},
    )
    assert started.stdout is not None
    started.stdout.readline()
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


def test_all_processes_of_a_session_are_ended_and_no_other() -> None:
    with running(FORKS) as leader, running(SLEEPS) as other:
        [child] = psutil.Process(leader.pid).children()
        found = leader_of(leader.pid)
        assert sorted(leftovers("nobody", [found])) == sorted([leader.pid, child.pid])
        end_leftovers("nobody", [found])
        assert leftovers("nobody", [found]) == []
        assert leader.wait(5) == -signal.SIGTERM
        assert other.poll() is None


def test_child_is_found_when_its_leader_has_ended() -> None:
    with running(FORKS) as leader:
        [child] = psutil.Process(leader.pid).children()
        found = leader_of(leader.pid)
        leader.kill()
        leader.wait()
        assert leftovers("nobody", [found]) == [child.pid]
        end_leftovers("nobody", [found])
        assert leftovers("nobody", [found]) == []


def test_process_in_its_own_session_is_found_by_its_mark() -> None:
    with (
        running(SLEEPS, environ={MARK: "server/1"}) as first,
        running(SLEEPS, environ={MARK: "server/2"}) as second,
        running(SLEEPS, environ={MARK: "server2/1"}) as other,
    ):
        assert leftovers("server/1", []) == [first.pid]
        assert sorted(leftovers("server", [])) == sorted([first.pid, second.pid])
        end_leftovers("server", [])
        assert (first.wait(5), second.wait(5)) == (-signal.SIGTERM, -signal.SIGTERM)
        assert other.poll() is None


def test_process_that_ignores_sigterm_is_killed() -> None:
    with running(STUBBORN) as leader:
        end_leftovers("nobody", [leader_of(leader.pid)])
        assert leader.wait(5) == -signal.SIGKILL


def test_later_process_with_the_same_pid_is_left_running() -> None:
    with running(SLEEPS) as leader:
        assert leftovers("nobody", [Leader(leader.pid, 1.0)]) == []


def test_watchdog_knows_the_unfinished_leaders() -> None:
    lines = ["+1 1.5\n", "+2 2.25\n", "-1 1.5\n", "+1 3.5\n"]
    assert unfinished(lines) == [Leader(1, 3.5), Leader(2, 2.25)]
    assert unfinished([f"+{leader_of(os.getpid())}"]) == [leader_of(os.getpid())]
