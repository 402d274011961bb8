"""Log groups and streams: containers' output is shipped to them, waiting readers read them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from lmi_deploy.emulator.clock import VirtualClock
from lmi_deploy.emulator.record_store import write_atomically

_GROUP: Final = "group.json"


@dataclass(frozen=True, slots=True)
class LogLine:
    """Milliseconds since 1970."""

    at: int
    ingested: int
    text: str


@dataclass(slots=True)
class LogStream:
    created: int
    lines: list[LogLine] = field(default_factory=list)


@dataclass(slots=True)
class LogGroup:
    created: int
    streams: dict[str, LogStream] = field(default_factory=dict)
    retention: int | None = None
    tags: dict[str, str] = field(default_factory=dict)


class LogGroups:
    """The groups of one region; in `folder`, if given, a folder per group with one file per stream."""

    def __init__(self, arn: str, clock: VirtualClock, folder: Path | None) -> None:
        """`arn` is what the ARNs of the groups begin with."""
        self.arn = arn
        self._clock = clock
        self._folder = folder
        self.groups: dict[str, LogGroup] = {}
        if folder is not None:
            for path in folder.glob(f"*/{_GROUP}"):
                self.groups[unquote(path.parent.name)] = LogGroup(**json.loads(path.read_bytes()))
            for path in sorted(folder.glob("*/*.jsonl")):
                self._read(path)

    def milliseconds(self) -> int:
        return int(self._clock.now() * 1000)

    def make_group(self, name: str) -> LogGroup:
        if name not in self.groups:
            self.groups[name] = LogGroup(self.milliseconds())
            self.save(name)
        return self.groups[name]

    def make_stream(self, group: str, name: str) -> LogStream:
        streams = self.make_group(group).streams
        if name not in streams:
            streams[name] = LogStream(self.milliseconds())
            if (path := self._path(group, name)) is not None:
                path.touch()
        return streams[name]

    def save(self, name: str) -> None:
        """After a change of the group itself."""
        if self._folder is not None:
            existing = self.groups[name]
            description = {
                "created": existing.created,
                "retention": existing.retention,
                "tags": existing.tags,
            }
            write_atomically(self._folder / quote(name, safe="") / _GROUP, json.dumps(description).encode())

    def append(self, group: str, stream: str, lines: list[tuple[int, str]]) -> None:
        """Lines with their times, in their order."""
        existing, now = self.make_stream(group, stream), self.milliseconds()
        fresh = [LogLine(at, now, text) for at, text in lines]
        existing.lines.extend(fresh)
        if fresh and (path := self._path(group, stream)) is not None:
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps([line.at, line.ingested, line.text]) + "\n" for line in fresh)

    def drop_group(self, name: str) -> bool:
        if self.groups.pop(name, None) is None:
            return False
        if self._folder is not None:
            shutil.rmtree(self._folder / quote(name, safe=""))
        return True

    def drop_stream(self, group: str, name: str) -> bool:
        existing = self.groups.get(group)
        if existing is None or existing.streams.pop(name, None) is None:
            return False
        if (path := self._path(group, name)) is not None:
            path.unlink(missing_ok=True)
        return True

    def _path(self, group: str, stream: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / quote(group, safe="") / f"{quote(stream, safe='')}.jsonl"

    def _read(self, path: Path) -> None:
        lines = list(_lines(path))
        created = lines[0].at if lines else self.milliseconds()
        group = self.groups.setdefault(unquote(path.parent.name), LogGroup(created))
        group.streams[unquote(path.name.removesuffix(".jsonl"))] = LogStream(created, lines)


def _lines(path: Path) -> Iterator[LogLine]:
    """Without a last line that a kill cut short; the next line must not be joined to it."""
    content = path.read_bytes()
    data = content[: content.rfind(b"\n") + 1]
    if data != content:
        os.truncate(path, len(data))
    for text in data.splitlines():
        at, used, line = json.loads(text)
        yield LogLine(at, used, line)


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
