"""Find and kill the processes that a worker left running."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
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
            is_owned = os.getsid(process.pid) in sessions or _is_marked(process.environ().get(MARK, ""), mark)
            if is_owned and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def _is_marked(found: str, mark: str) -> bool:
    return found == mark or found.startswith(f"{mark}/")


def _is_another(leader: Leader) -> bool:
    """Whether the number belongs to a later process: then nothing is left of the session that it once was."""
    import psutil

    try:
        return bool(leader.started) and psutil.Process(leader.pid).create_time() != leader.started
    except psutil.Error:
        return False
