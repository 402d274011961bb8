"""Files that a user names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmi_deploy.errors import UsageRefused


def read_bytes(path: Path) -> bytes:
    """UsageRefused of a file that cannot be read."""
    with _readable(path):
        return path.read_bytes()


def read_text(path: Path) -> str:
    """UsageRefused, with the line if there is one, of a file that cannot be read."""
    try:
        with _readable(path):
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as reason:
        line = path.read_bytes()[: reason.start].count(b"\n") + 1
        raise UsageRefused(f"{path}:{line}: not UTF-8", hint="convert the file to UTF-8") from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as reason:
        raise UsageRefused(f"{path}: {reason.strerror}", hint="name a file that you may read") from None
