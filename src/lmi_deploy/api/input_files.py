"""Text files that a user names."""

from __future__ import annotations

from pathlib import Path

from lmi_deploy.errors import UsageRefused


def read_text(path: Path) -> str:
    """UsageRefused, with the line if there is one, of a file that cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as reason:
        raise UsageRefused(f"{path}: {reason.strerror}", hint="name a file that you may read") from None
    except UnicodeDecodeError as reason:
        line = path.read_bytes()[: reason.start].count(b"\n") + 1
        raise UsageRefused(f"{path}:{line}: not UTF-8", hint="convert the file to UTF-8") from None
