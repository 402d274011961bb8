"""The results folder of an experiment: a report of one point for each measured cell and repeat, and the report of all.

A finished cell is never measured again. Files appear whole, so that a crash leaves none half written.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_file import from_json, to_json
from lmi_deploy.errors import Refused, UsageRefused

REPORT: Final = "report.json"
_CELLS: Final = "cells"
_TOKEN: Final = "experiment"
_LOCK: Final = ".lock"


class ResultsFolder:
    """UsageRefused if it cannot be written, or has a damaged file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: dict[Path, Report] = {}
        try:
            (path / _CELLS).mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            hint = "name a folder that you may write to: --results DIR"
            raise UsageRefused(f"{path}: {reason.strerror}", hint=hint) from None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Refused while another process holds it: two on one folder would deploy and delete under the same names. The
        kernel releases it when the process ends, however it ends.
        """
        with self._open_lock() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    f"{self.path}: another `lmi bench` (process {os.pread(lock, 20, 0).decode() or 'unknown'}) "
                    "measures into this folder",
                    hint="wait until it has ended, or name another folder: --results DIR",
                ) from None
            with suppress(OSError):  # on a full disk only the number of the process is missing
                os.ftruncate(lock, 0)
                os.pwrite(lock, str(os.getpid()).encode(), 0)
            yield

    @contextmanager
    def _open_lock(self) -> Iterator[int]:
        try:
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as reason:
            hint = "name a folder that you may write to: --results DIR"
            raise UsageRefused(f"{self.path / _LOCK}: {reason.strerror}", hint=hint) from None
        try:
            yield lock
        finally:
            os.close(lock)

    @property
    def token(self) -> str:
        """Of this folder alone: part of the names of its deployments."""
        place = self.path / _TOKEN
        if not place.exists():
            self._write(place, secrets.token_hex(8))
        return place.read_text(encoding="utf-8").strip()

    @property
    def report(self) -> Path:
        return self.path / REPORT

    def has(self, key: str, turn: int) -> bool:
        return self._file(key, turn).exists()

    def keep(self, key: str, turn: int, report: Report) -> None:
        """UsageRefused if it cannot be written: then it is in `parts` of this run only."""
        path = self._file(key, turn)
        self._unwritten[path] = report
        self._write(path, to_json(report))
        del self._unwritten[path]

    def keep_report(self, report: Report) -> None:
        self._write(self.report, to_json(report))

    def parts(self, key: str, repeats: int) -> Iterator[Report]:
        """What was measured of a cell."""
        for turn in range(repeats):
            path = self._file(key, turn)
            if path in self._unwritten:
                yield self._unwritten[path]
            elif path.exists():
                yield from_json(path.read_text(encoding="utf-8"), str(path))

    def _file(self, key: str, turn: int) -> Path:
        return self.path / _CELLS / f"{key}-{turn + 1}.json"

    def _write(self, path: Path, text: str) -> None:
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as reason:
            hint = "free space there, and run the same command again: finished cells are kept"
            raise UsageRefused(f"{path}: {reason.strerror}", hint=hint) from None
