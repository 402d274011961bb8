"""The state of the emulated services: tables of JSON records, on disk if a folder is given."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lmi_deploy.errors import Refused, UsageRefused

Row = dict[str, Any]
Watcher = Callable[[str, str, Row | None, Row | None], None]
"""Called for every change: the table's kind and region, the record before it and after it."""


class Table:
    """Records by name. A change is on disk, whole, before the call returns."""

    def __init__(self, folder: Path | None, changed: Callable[[Row | None, Row | None], None]) -> None:
        self._folder = folder
        self._changed = changed
        self._rows: dict[str, Row] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(folder.glob("*.json")):
                existing = json.loads(path.read_text("utf-8"))
                self._rows[existing["name"]] = _renamed_fields(existing["row"])

    def get(self, name: str) -> Row | None:
        return self._rows.get(name)

    def put(self, name: str, row: Row) -> None:
        before, self._rows[name] = self._rows.get(name), row
        if self._folder is not None:
            write_atomically(self._path(name), json.dumps({"name": name, "row": row}).encode())
        self._changed(before, row)

    def drop(self, name: str) -> Row | None:
        if self._folder is not None:
            self._path(name).unlink(missing_ok=True)
        dropped = self._rows.pop(name, None)
        self._changed(dropped, None)
        return dropped

    def rows(self) -> Iterator[tuple[str, Row]]:
        yield from list(self._rows.items())

    def _path(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{quote(name, safe='')}.json"


_OLD_FIELDS = {"told": "description", "several": "specifications"}
"""Of an inference component's specification, as earlier emulators stored it."""


def _renamed_fields(row: Row) -> Row:
    for key in ("spec", "pending"):
        if isinstance(spec := row.get(key), dict):
            row[key] = {_OLD_FIELDS.get(name, name): value for name, value in spec.items()}
    return row


class Store:
    """Tables by kind and region."""

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self._tables: dict[tuple[str, str], Table] = {}
        self._watchers: list[Watcher] = []
        if root is not None:
            for path in sorted((root / "tables").glob("*/*/")):
                self.table(path.parent.name, path.name)

    def table(self, kind: str, region: str) -> Table:
        key = (kind, region)
        if key not in self._tables:
            folder = self.root / "tables" / kind / region if self.root else None
            self._tables[key] = Table(folder, partial(self._notify_watchers, kind, region))
        return self._tables[key]

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def every_row(self) -> Iterator[tuple[str, str, Row]]:
        """All records, with the kind and the region of their tables."""
        for (kind, region), table in list(self._tables.items()):
            yield from ((kind, region, row) for _, row in table.rows())

    def _notify_watchers(self, kind: str, region: str, before: Row | None, after: Row | None) -> None:
        for watcher in self._watchers:
            watcher(kind, region, before, after)

    def latest(self) -> float:
        """The latest moment at which a record was created or changed; time must not be before it."""
        moments = (
            float(row.get(key) or 0.0) for _, _, row in self.every_row() for key in ("created", "modified")
        )
        return max(moments, default=0.0)

    def regions(self, kind: str) -> tuple[str, ...]:
        return tuple(region for existing, region in self._tables if existing == kind)


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Lock the folder while it is open: two emulators would stop each other's containers and overwrite each other's
    files.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_private(folder)
        lock = (folder / ".lock").open("w")
    except OSError as exc:
        raise UsageRefused(
            f"--dir {folder}: cannot be used: {exc.strerror}", hint="name a folder that you may write to"
        ) from exc
    with lock:
        try:
            # The kernel releases it when this process exits, however it exits.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise Refused(
                f"--dir {folder}: another emulator is using this folder",
                hint="stop that emulator first, or choose another --dir",
            ) from exc
        yield


def _require_private(folder: Path) -> None:
    """Its content decides what containers and jobs run, and which keys are valid."""
    existing = folder.stat()
    if existing.st_uid != os.getuid() or existing.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageRefused(
            f"--dir {folder}: other users of this machine may write to it",
            hint=f"make yourself its owner (chown) and run chmod go-w {folder}, or name another folder",
        )


def write_atomically(path: Path, content: bytes) -> None:
    """The whole content or the old one: a kill in between loses nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_bytes(content)
    partial.replace(path)
