"""A log file, line by line, and what is added to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lmi_deploy.ports.clock import Clock


def tail(log: Path, *, follow: bool, clock: Clock) -> Iterator[str]:
    """Whole lines, oldest first; with `follow` until the file is gone, else to its end."""
    if not log.exists():
        return
    with log.open(errors="replace") as lines:
        held = ""
        while True:
            held += lines.readline()
            if held.endswith("\n"):
                yield held.rstrip("\n")
                held = ""
            elif not follow or not log.exists():
                break
            else:
                clock.sleep(0.2)
        if held:
            yield held
