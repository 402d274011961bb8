"""The content of a server's home folder, and of the private folder that belongs to it: notes, sockets, last lines."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Process

LAST_LINES = 40
REQUESTED_STOPS = frozenset({0, 130, 143})
"""Exit codes of a requested stop."""
LONGEST_RUN_FOLDER = 103 - len("/djl_sock.19000.99")
"""Bytes: a unix socket's path has 103 at most on macOS, and the longest here is that of a worker's rank."""
_FAILURE = "failure.json"
_PROCESS = "process.json"
_WORKER = re.compile(r"^.*?\bW-\d+-\S+-std(?:out|err): ")
"""The prefix of a worker's line in DJLServing's log."""


def run_folder(home: Path) -> Path:
    """A private folder whose sockets have a path that is short enough: under TMPDIR, or under /tmp where TMPDIR is too
    long, as in the work folders of some CI systems.
    """
    parts = f"lmi-{os.getuid()}", short(digest(str(home.resolve())), 12)
    folder = Path(tempfile.gettempdir(), *parts)
    return folder if len(os.fsencode(folder)) <= LONGEST_RUN_FOLDER else Path("/tmp", *parts)


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user that no other user can read; a link to one is not."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    closed = stat.S_IMODE(found.st_mode) & 0o077 == 0
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and closed


def fresh_run_folder(home: Path) -> Path:
    """The same, empty. Refused if another user created the folder around it, or a link in its place."""
    run = run_folder(home)
    try:
        run.parent.mkdir(mode=0o700)
    except FileExistsError:
        found = run.parent.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            what = (
                "is a link" if stat.S_ISLNK(found.st_mode) else "belongs to another user or is not a folder"
            )
            raise DeployFailed(
                f"{run.parent}: {what}, so it is not safe for a server's sockets",
                hint="set TMPDIR to your own folder",
            ) from None
        if stat.S_IMODE(found.st_mode) != 0o700:
            run.parent.chmod(0o700)
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(mode=0o700)
    return run


def write_note(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.replace(path)


def read_note(path: Path) -> dict[str, Any]:
    """Empty if there is none."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def last_lines(log: Path) -> list[str]:
    """The end of a log, its worker's lines as the worker wrote them; empty without a log."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    except OSError:
        return []
    return [_WORKER.sub("", line) for line in lines]


def port_at_start(launch: Launch) -> int | None:
    """The port to listen at; None if it is not available, so that this start fails."""
    try:
        return chosen_port(launch.host, launch.port)
    except OSError as reason:
        write_start_failure(launch.home, f"{launch.host}:{launch.port}: {reason.strerror}")
        return None


def write_start_failure(home: Path, message: str) -> None:
    """Why nothing was started; the next start deletes it."""
    write_note(home / _FAILURE, {"message": message})


def failure_at_start(home: Path) -> str:
    return str(read_note(home / _FAILURE).get("message", ""))


def failure_of(home: Path, problem: str, log: Path) -> str:
    """`problem`, and the last lines of the log; for a start that failed before it, `problem` alone."""
    return "\n".join([problem, *last_lines(log)]) if problem and not failure_at_start(home) else problem


def write_process(home: Path, process: Process) -> None:
    write_note(home / _PROCESS, asdict(process))


def noted_process(home: Path) -> Process | None:
    """The process that was started for this home, whether it still runs or not."""
    note = read_note(home / _PROCESS)
    return Process(pid=int(note["pid"]), started=str(note["started"])) if note else None


def not_running(home: Path, problem: str, *, runtime: str) -> ObservedServer:
    phase: Literal["failed", "gone"] = "failed" if problem else "gone"
    return ObservedServer(server=home.name, phase=phase, pid=None, port=None, runtime=runtime)


def delete_notes(home: Path, *notes: str) -> None:
    for name in (_FAILURE, *notes):
        (home / name).unlink(missing_ok=True)


def chosen_port(host: str, port: int) -> int:
    """The port itself, or a free one for 0. OSError if the port is in use."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: an address whose last connections were only just closed counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])
