"""A log file, line by line, including new lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lmi_deploy.ports.clock import Clock

_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b(: .*)?)$")


def exception_line(lines: Sequence[str]) -> str:
    """The last line that names an exception, as at the end of a traceback; empty if there is none."""
    named = (match[1] for line in reversed(lines) if (match := _EXCEPTION.match(line.strip())))
    return next(named, "")


def tail(log: Path, *, follow: bool, clock: Clock) -> Iterator[str]:
    """Whole lines, oldest first; with `follow` until the file is deleted, else to its end."""
    if not log.exists():
        return
    with log.open(errors="replace") as lines:
        existing = ""
        while True:
            existing += lines.readline()
            if existing.endswith("\n"):
                yield existing.rstrip("\n")
                existing = ""
            elif not follow or not log.exists():
                break
            else:
                clock.sleep(0.2)
        if existing:
            yield existing


def last_lines(log: Path, count: int = 40) -> list[str]:
    try:
        return log.read_text(errors="replace").splitlines()[-count:]
    except OSError:
        return []
