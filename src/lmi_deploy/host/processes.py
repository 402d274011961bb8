"""Processes of this machine: start, recognise, end. A process is its number and its start, never its number alone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.processes import Process

_PAUSE = 0.05
_TIMEOUT = 30.0
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""The children of this process: one that exited stays a zombie until its parent waits for it."""


def start_detached(argv: Sequence[str], *, log: Path, cwd: Path, environ: Mapping[str, str]) -> Process:
    """Start a program that outlives this process, in its own session; its output is appended to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
            close_fds=True,
        )
    _CHILDREN[child.pid] = child
    return Process(pid=child.pid, started=identity(child.pid) or "")


def identity(pid: int) -> str | None:
    """When the process started, as a text to compare; None if it does not exist, or is a zombie."""
    child = _CHILDREN.get(pid)
    if child is not None and child.poll() is not None:
        del _CHILDREN[pid]
    try:
        return _linux_identity(pid)
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _other_identity(pid)


def alive(process: Process) -> bool:
    """Whether this very process runs; a later one of the same number does not count."""
    return process.started != "" and identity(process.pid) == process.started


def end(process: Process, *, grace: float, clock: Clock) -> None:
    """SIGTERM, up to `grace` seconds to exit, SIGKILL; then its child processes are gone, too.

    A child process may lead its own session, and has no parent once the process has exited: so it is looked up
    before.
    """
    if alive(process):
        _signal(process.pid, signal.SIGTERM)
        _await_end(process, grace, clock)
    started = descendants(process)
    if alive(process):
        _signal(process.pid, signal.SIGKILL)
        _await_end(process, 5.0, clock)
    for pid in session_members(process):
        _signal(pid, signal.SIGKILL)
    for one in started:
        if alive(one):
            _signal(one.pid, signal.SIGKILL)


def end_marked(variable: str, clock: Clock) -> None:
    """SIGKILL to every process that has this variable in its environment, until there is none."""
    deadline = clock.monotonic() + _TIMEOUT
    while (found := _marked(variable)) and clock.monotonic() < deadline:
        for pid in found:
            _signal(pid, signal.SIGKILL)
        clock.sleep(_PAUSE)


def descendants(process: Process) -> tuple[Process, ...]:
    """Its children, theirs, and so on; empty if it does not run."""
    import psutil

    if not alive(process):
        return ()
    try:
        found = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        return ()
    known = ((child.pid, identity(child.pid)) for child in found)
    return tuple(Process(pid=pid, started=started) for pid, started in known if started is not None)


def session_members(process: Process) -> tuple[int, ...]:
    """The running processes of the session that `process` led; empty if the number now belongs to another process."""
    import psutil

    leader = identity(process.pid)
    if leader is not None and leader != process.started:
        return ()
    members = [pid for pid in psutil.pids() if pid != process.pid and _session(pid) == process.pid]
    return tuple(pid for pid in members if _not_before(identity(pid), process.started))


def rss(pid: int) -> int:
    """Resident bytes of the process and all its children; 0 if it has exited."""
    import psutil

    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for member in family:
        with suppress(psutil.Error):
            total += member.memory_info().rss
    return total


def _marked(variable: str) -> list[int]:
    import psutil

    found = []
    for process in psutil.process_iter():
        # Other users' processes are not readable.
        with suppress(psutil.Error, OSError):
            if variable in process.environ():
                found.append(process.pid)
    return found


def _linux_identity(pid: int) -> str | None:
    # The name in brackets may contain anything, so the fields are counted from its end: state is the first.
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except ProcessLookupError:
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def _other_identity(pid: int) -> str | None:
    import psutil

    try:
        found = psutil.Process(pid)
        return (
            None
            if found.status() == psutil.STATUS_ZOMBIE
            else f"{psutil.boot_time():.0f}/{found.create_time():.2f}"
        )
    except psutil.Error:
        return None


def _not_before(own: str | None, leader: str) -> bool:
    """Same boot and no earlier start: a child of that leader, not an unrelated older process."""
    if own is None:
        return False
    (boot, _, start), (leaders_boot, _, leaders_start) = own.rpartition("/"), leader.rpartition("/")
    return boot == leaders_boot and float(start) >= float(leaders_start)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _await_end(process: Process, seconds: float, clock: Clock) -> None:
    deadline = clock.monotonic() + seconds
    while alive(process) and clock.monotonic() < deadline:
        clock.sleep(_PAUSE)
