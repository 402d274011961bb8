"""A file of few bytes: read, checked, and put in one piece."""

from __future__ import annotations

from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import IntegrityError
from lmi_deploy.ports.object_store import Stored
from lmi_deploy.weights.buffer_pool import Slab
from lmi_deploy.weights.context import Ends
from lmi_deploy.weights.hashing import Seal
from lmi_deploy.weights.upload_task import Job


class SmallFile:
    """`there` is what the bucket has under its key already: the same bytes are not sent again."""

    def __init__(self, entry: FileEntry, ends: Ends, *, there: Stored | None = None) -> None:
        self.entry = entry
        self.done: StoredFile | None = None
        self._ends = ends
        self._there = there
        self._left = True

    def next_job(self) -> Job | None:
        job = self._move if self._left else None
        self._left = False
        return job

    def give_up(self) -> None:
        self._left = False

    def _move(self, slab: Slab) -> None:
        view = slab.content[: self.entry.size]
        try:
            seal, crc = self._read(view)
        except IntegrityError:
            seal, crc = self._read(view)
        self.done = stored_file(self.entry, seal.sha256, crc, etag=self._put(view, crc))

    def _read(self, view: memoryview) -> tuple[Seal, str]:
        crc = self._ends.fill(self.entry, view, 0)
        seal = Seal(self.entry)
        seal.update(view)
        seal.check()
        return seal, crc

    def _put(self, view: memoryview, crc: str) -> str:
        """The ETag of the object that has these bytes."""
        size, board = self.entry.size, self._ends.board
        if (existing := self._existing(crc)) is not None:
            board.add(safe=size)
            return existing.etag
        made = self._ends.store.put(self._ends.key(self.entry), bytes(view), crc32=crc)
        board.add(safe=size, sent=size)
        return made.etag

    def _existing(self, crc: str) -> Stored | None:
        if self._there is None or self._there.size != self.entry.size:
            return None
        found = self._ends.store.look(self._there.key)
        return found if found is not None and found.checksum == crc else None


def stored_file(entry: FileEntry, sha256: str, crc: str, *, etag: str = "") -> StoredFile:
    return StoredFile(
        path=entry.path,
        size=entry.size,
        sha256=sha256,
        oid=entry.oid,
        kind=entry.kind,
        checksum=crc,
        algorithm="CRC32",
        etag=etag.strip('"'),
    )
