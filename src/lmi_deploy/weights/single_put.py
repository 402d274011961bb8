"""A file of few bytes: read, checked, and put in one piece."""

from __future__ import annotations

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import IntegrityError
from lmi_deploy.ports.object_store import StoredObject
from lmi_deploy.weights.buffer_pool import Buffer
from lmi_deploy.weights.streaming_hash import FileHasher
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.upload_task import SingleJobTask


class SmallFile(SingleJobTask):
    """`existing` is the object under its key: the same bytes are not sent again."""

    def __init__(
        self, entry: FileEntry, context: TransferContext, *, existing: StoredObject | None = None
    ) -> None:
        super().__init__(entry)
        self._ends = context
        self._stored = existing

    def run(self, buffer: Buffer) -> None:
        view = buffer.content[: self.entry.size]
        try:
            hasher, crc = self._read(view)
        except IntegrityError:
            hasher, crc = self._read(view)
        self.done = stored_file(self.entry, hasher.sha256, crc, etag=self._put(view, crc))

    def _read(self, view: memoryview) -> tuple[FileHasher, str]:
        crc = self._ends.read_into(self.entry, view, 0)
        hasher = FileHasher(self.entry)
        hasher.update(view)
        hasher.check(self._ends.listing.source)
        return hasher, crc

    def _put(self, view: memoryview, crc: str) -> str:
        """The ETag of the object that has these bytes."""
        size, progress = self.entry.size, self._ends.board
        if (existing := self._existing(crc)) is not None:
            progress.add(safe=size)
            return existing.etag
        created = self._ends.store.put(self._ends.key(self.entry), bytes(view), crc32=crc)
        progress.add(safe=size, sent=size)
        return created.etag

    def _existing(self, crc: str) -> StoredObject | None:
        if self._stored is None or self._stored.size != self.entry.size:
            return None
        found = self._ends.store.head(self._stored.key)
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
