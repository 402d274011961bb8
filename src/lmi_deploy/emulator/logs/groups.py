"""Log groups and streams: appended to by containers, read by those who wait for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

from lmi_deploy.emulator.clock import TurnedClock


@dataclass(frozen=True, slots=True)
class LogLine:
    """Milliseconds since 1970."""

    at: int
    taken: int
    text: str


@dataclass(slots=True)
class Stream:
    created: int
    lines: list[LogLine] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    created: int
    streams: dict[str, Stream] = field(default_factory=dict)
    retention: int | None = None
    tags: dict[str, str] = field(default_factory=dict)


class LogGroups:
    """Of one region; in `folder`, one file a stream, where a folder is given."""

    def __init__(self, clock: TurnedClock, folder: Path | None) -> None:
        self._clock = clock
        self._folder = folder
        self.groups: dict[str, Group] = {}
        for path in sorted(folder.glob("*/*.jsonl")) if folder is not None and folder.is_dir() else ():
            self._read(path)

    def milliseconds(self) -> int:
        return int(self._clock.now() * 1000)

    def make_group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group(self.milliseconds()))

    def make_stream(self, group: str, name: str) -> Stream:
        return self.make_group(group).streams.setdefault(name, Stream(self.milliseconds()))

    def append(self, group: str, stream: str, lines: list[tuple[int, str]]) -> None:
        """Lines with their times, in their order."""
        held, now = self.make_stream(group, stream), self.milliseconds()
        fresh = [LogLine(at, now, text) for at, text in lines]
        held.lines.extend(fresh)
        if self._folder is not None and fresh:
            path = self._folder / quote(group, safe="") / f"{quote(stream, safe='')}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps([line.at, line.taken, line.text]) + "\n" for line in fresh)

    def drop_group(self, name: str) -> bool:
        if self.groups.pop(name, None) is None:
            return False
        if self._folder is not None:
            folder = self._folder / quote(name, safe="")
            for path in folder.glob("*.jsonl"):
                path.unlink()
        return True

    def drop_stream(self, group: str, name: str) -> bool:
        held = self.groups.get(group)
        if held is None or held.streams.pop(name, None) is None:
            return False
        if self._folder is not None:
            (self._folder / quote(group, safe="") / f"{quote(name, safe='')}.jsonl").unlink(missing_ok=True)
        return True

    def _read(self, path: Path) -> None:
        lines = list(_lines(path))
        created = lines[0].at if lines else self.milliseconds()
        group = self.groups.setdefault(unquote(path.parent.name), Group(created))
        group.streams[unquote(path.name.removesuffix(".jsonl"))] = Stream(created, lines)


def _lines(path: Path) -> Iterator[LogLine]:
    """Without a last line that a kill cut short; what comes next must not be joined to it."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        os.truncate(path, len(whole))
    for text in whole.splitlines():
        at, taken, line = json.loads(text)
        yield LogLine(at, taken, line)
