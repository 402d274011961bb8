"""The progress of a transfer: bytes that are safe, files that are done, why it waits."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class TransferProgress:
    """Written by the workers, read by the generator that shows it."""

    total: int
    safe: int = 0
    """Bytes that are in the bucket and correct, as far as is known."""
    sent: int = 0
    """Bytes that this run sent."""
    retries: int = 0
    _notes: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, safe: int, sent: int = 0) -> None:
        with self._lock:
            self.safe += safe
            self.sent += sent

    def note_file(self, path: str, note: str, *, retry: bool = True) -> None:
        """Why a file waits now, or what is done instead of sending it; empty when it continues."""
        with self._lock:
            if note:
                self._notes[path] = note
                self.retries += retry
            else:
                self._notes.pop(path, None)

    @property
    def note(self) -> str:
        with self._lock:
            return next((f"{path}: {note}" for path, note in self._notes.items()), "")
