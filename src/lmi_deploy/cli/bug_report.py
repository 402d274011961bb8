"""The bug report file: where the bug happened, with which versions, and without any user data."""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

from lmi_deploy import __version__


def write_report(bug: BaseException, argv: Sequence[str]) -> Path:
    """The path of the file. Arguments are cut to their names: values may be prompts or worse."""
    names = [part.split("=", 1)[0] if part.startswith("-") else "..." for part in argv[1:]]
    lines = [
        f"lmi {__version__}, Python {sys.version.split()[0]}, {platform.platform()}",
        f"command: lmi {' '.join([*argv[:1], *names])}",
        "",
        *(
            f"{frame.filename}:{frame.lineno} in {frame.name}"
            for frame in traceback.extract_tb(bug.__traceback__)
        ),
        f"{type(bug).__name__}",
        "",
        *sorted(f"{d.name} {d.version}" for d in distributions()),
    ]
    with tempfile.NamedTemporaryFile("w", prefix="lmi-report-", suffix=".txt", delete=False) as file:
        file.write("\n".join(lines) + "\n")
    return Path(file.name)
