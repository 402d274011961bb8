"""Find and kill the processes that a worker left running; as a program, those of a server that was killed.

`python -m lmi_deploy.server.workers.orphan_processes MARK`: a server that is killed cannot clean up, but its end of the
pipe that is the standard input of this program is closed. Until then it writes a line for each worker that starts
(`+PID STARTED`) and for each that has left nothing behind (`-PID STARTED`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

MARK = "LMI_WORKER"
"""The variable that a worker, and so all that it starts, has in its environment."""
_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL: enough to remove shared memory and files."""
_TIMEOUT = 10.0
_PAUSE = 0.05


class Leader(NamedTuple):
    """The process that leads a session; a later one of the same number started later."""

    pid: int
    started: float

    def __str__(self) -> str:
        return f"{self.pid} {self.started!r}"


def leader_of(pid: int) -> Leader:
    import psutil

    try:
        return Leader(pid, psutil.Process(pid).create_time())
    except psutil.Error:  # it has ended already
        return Leader(pid, 0.0)


def end_leftovers(mark: str, leaders: Sequence[Leader]) -> None:
    """SIGTERM, then SIGKILL, until nothing is left of these sessions and nothing with this mark or below it."""
    pause = threading.Event()
    for number, timeout in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _TIMEOUT)):
        until = time.monotonic() + timeout
        reported: set[int] = set()
        while found := leftovers(mark, leaders):
            for pid in set(found) - reported:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            reported.update(found)
            if time.monotonic() > until:
                break
            pause.wait(_PAUSE)
        else:
            return


def leftovers(mark: str, leaders: Sequence[Leader]) -> list[int]:
    """Processes of these sessions, leaders included, and those whose environment contains the mark."""
    import psutil

    sessions = {leader.pid for leader in leaders if not _is_another(leader)}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            is_owned = os.getsid(process.pid) in sessions
            is_owned = is_owned or f"{process.environ().get(MARK, '')}/".startswith(f"{mark}/")
            if is_owned and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def _is_another(leader: Leader) -> bool:
    """Whether the number belongs to a later process: then nothing is left of the session that it once was."""
    import psutil

    try:
        return bool(leader.started) and psutil.Process(leader.pid).create_time() != leader.started
    except psutil.Error:
        return False


def unfinished(lines: Iterable[str]) -> list[Leader]:
    """Those that started and did not end."""
    leaders: set[Leader] = set()
    for line in lines:
        pid, started = line[1:].split()
        leader = Leader(int(pid), float(started))
        leaders = leaders | {leader} if line.startswith("+") else leaders - {leader}
    return sorted(leaders)


if __name__ == "__main__" and (left := unfinished(sys.stdin)):
    end_leftovers(sys.argv[1], left)
