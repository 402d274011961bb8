"""The transfer of a container's output to CloudWatch Logs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lmi_deploy.emulator.logs.groups import LogGroups

POLL: Final = 0.1


@dataclass(slots=True)
class LogShipper:
    """From the file that it prints into, line by line, to its stream."""

    path: Path
    logs: LogGroups
    group: str
    stream: str
    at: int = 0

    async def run(self) -> None:
        while True:
            self.ship()
            await asyncio.sleep(POLL)

    def ship(self, *, last: bool = False) -> None:
        """The whole lines since the last time; at the `last`, one without an end as well."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                found = file.read()
        except OSError:
            return
        content = found if last else found[: found.rfind(b"\n") + 1]
        if not content:
            return
        self.at += len(content)
        self.write_line(*content.decode("utf-8", "replace").split("\n"))

    def write_line(self, *lines: str) -> None:
        now = self.logs.milliseconds()
        self.logs.append(self.group, self.stream, [(now, line) for line in lines if line])
