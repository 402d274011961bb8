"""Hashes that were computed before, in a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


class HashLedger:
    """A hash by the mark of the bytes that have it: a mark changes with them, so that all are hashed once.

    It only saves time: without a file, or with one that cannot be written, the next run hashes again.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._known = dict(_lines(file)) if file is not None else {}

    def get(self, mark: str) -> str | None:
        return self._known.get(mark)

    def add(self, mark: str, found: str) -> None:
        with self._lock:
            self._known[mark] = found
            if self._file is not None:
                with suppress(OSError):
                    self._file.parent.mkdir(parents=True, exist_ok=True)
                    with self._file.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([mark, found]) + "\n")


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    """A line that a kill cut short is passed over."""
    try:
        text = file.read_text("utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        with suppress(ValueError, TypeError):
            mark, found = json.loads(line)
            yield str(mark), str(found)
