"""Where a recipe's file is from: this machine, the repository of its working tree, and the commit."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path
from typing import Final

from lmi_deploy.domain.record import Author

_LIMIT: Final = 10
"""Seconds for one call of git."""
_REMOTE: Final = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/]*@)?(?P<host>[^:/]+)(?::\d+/|[:/])/?(?P<path>.+?)(?:\.git)?/?$"
)
"""Of an address such as https://USER:TOKEN@HOST/PATH.git or git@HOST:PATH: host and path alone, without credentials."""


def recipe_author(file: str) -> Author:
    """Without a file, or where git is not installed or does not know it: the machine alone."""
    host, path = socket.gethostname(), Path(file)
    if not file or not path.is_file():
        return Author(host=host)
    remote = _REMOTE.match(_git(path.parent, "remote", "get-url", "origin"))
    if remote is None:
        return Author(host=host)
    tracked = _git(path.parent, "ls-files", "--full-name", "--", path.name)
    changed = _git(path.parent, "status", "--porcelain", "--untracked-files=no")
    revision = _git(path.parent, "rev-parse", "--short=12", "HEAD")
    return Author(
        host=host,
        repository=f"{remote['host']}/{remote['path']}",
        path=tracked,
        revision=f"{revision}+" if revision and changed else revision,
    )


def _git(folder: Path, *words: str) -> str:
    """What it prints; empty if it fails."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.strip()
