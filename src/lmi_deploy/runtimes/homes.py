"""What a server's home folder, and the private folder that belongs to it, hold: notes, sockets, last lines."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

from lmi_deploy.core.naming import digest, short
from lmi_deploy.errors import DeployFailed

LAST_LINES = 40
_WORKER = re.compile(r"^.*?\bW-\d+-\S+-std(?:out|err): ")
"""What DJLServing's log puts before a line of its worker."""


def run_folder(home: Path) -> Path:
    """A private folder with a short path: a unix socket's path may have 103 bytes at most (macOS)."""
    return Path(tempfile.gettempdir(), f"lmi-{os.getuid()}", short(digest(str(home.resolve())), 12))


def fresh_run_folder(home: Path) -> Path:
    """The same, empty. Refused where somebody else made it first."""
    run = run_folder(home)
    run.parent.mkdir(mode=0o700, exist_ok=True)
    if run.parent.stat().st_uid != os.getuid():
        raise DeployFailed(
            f"{run.parent}: belongs to another user", hint="set TMPDIR to a folder of your own"
        )
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(mode=0o700)
    return run


def write_note(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.replace(path)


def read_note(path: Path) -> dict[str, Any]:
    """Empty where there is none."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def last_lines(log: Path) -> list[str]:
    """The end of a log, its worker's lines as the worker wrote them; empty where there is none."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    except OSError:
        return []
    return [_WORKER.sub("", line) for line in lines]


def chosen_port(host: str, port: int) -> int:
    """The port itself, or a free one for 0. OSError where somebody listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: an address whose last connections are only just closed is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])
