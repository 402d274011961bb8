"""A source of generated files: of any size, at no cost, and corrupt on demand."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.ports.source import BytesRead

Twist = Callable[[str, int, memoryview], None]


def untouched(path: str, start: int, buffer: memoryview) -> None:
    """The bytes are right."""


@dataclass
class GeneratedSource:
    """The port Source over bytes in memory. `twist` sees each buffer before it is returned; `requests` is a
    log."""

    files: Mapping[str, bytes]
    git: frozenset[str] = frozenset()
    twist: Twist = untouched
    requests: list[tuple[str, int, int]] = field(default_factory=list)
    buffers: dict[int, int] = field(default_factory=dict)
    """Each buffer that was passed in, with its size."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    _listed: tuple[FileEntry, ...] = ()

    def listing(self, commit: str = "c" * 40) -> ModelListing:
        self._listed = self._listed or self._entries()
        return ModelListing(model_id="org/model", commit=commit, files=self._listed)

    def _entries(self) -> tuple[FileEntry, ...]:
        return tuple(self._entry(path, content) for path, content in sorted(self.files.items()))

    def _entry(self, path: str, content: bytes) -> FileEntry:
        if path in self.git:
            return FileEntry(path=path, size=len(content), oid=oid_of(content, "git-sha1"), kind="git-sha1")
        return FileEntry(path=path, size=len(content), oid=hashlib.sha256(content).hexdigest(), kind="sha256")

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        with self._lock:
            self.requests.append((path, start, len(buffer)))
            self.buffers[id(buffer.obj)] = memoryview(buffer.obj).nbytes
        half = len(buffer) // 2
        for begin, end in ((0, half), (half, len(buffer))):
            buffer[begin:end] = memoryview(self.files[path])[start + begin : start + end]
            if end == len(buffer):
                self.twist(path, start, buffer)
            yield BytesRead(end)
