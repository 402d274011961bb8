"""A file of many parts: read in a sliding window, hashed in order, completed only if the hash is its source's.

S3 is the state. Parts of an earlier run are read again for the hash (there is no other way to get it), and sent again
only if their CRC32 differs.
"""

from __future__ import annotations

from functools import partial

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import IntegrityError, NotFound, TransferFailed
from lmi_deploy.ports.object_store import MultipartUpload
from lmi_deploy.weights.buffer_pool import Buffer
from lmi_deploy.weights.existing_objects import existing_file, most_complete_upload, oid_metadata
from lmi_deploy.weights.multipart_read import MultipartState
from lmi_deploy.weights.part_size import Span
from lmi_deploy.weights.single_put import stored_file
from lmi_deploy.weights.transfer_context import GO_ON, TransferContext
from lmi_deploy.weights.upload_task import Job

LOST = 3
"""How often an upload may be lost to another process."""


class LargeFile:
    """`uploads` are the incomplete ones for its key: the most complete one is resumed."""

    def __init__(
        self, entry: FileEntry, context: TransferContext, *, uploads: tuple[MultipartUpload, ...] = ()
    ) -> None:
        self.entry = entry
        self.done: StoredFile | None = None
        self._ends = context
        self._uploads = uploads
        self._lost = self._damaged = 0
        self._reading = MultipartState(entry)

    def next_job(self) -> Job | None:
        reading = self._reading
        span = None if reading.failed else next(reading.spans, None)
        return None if span is None else partial(self._move, reading, span)

    def give_up(self) -> None:
        self._reading.abandon()

    def _move(self, reading: MultipartState, span: Span, buffer: Buffer) -> None:
        """Read one part, hash the parts that are next in order, send the part, and complete the file if nothing is
        left.
        """
        upload = self._opened(reading)
        view = buffer.content[: span.size]
        crc = self._ends.read_into(self.entry, view, span.start)
        reading.hash_in_turn(span, buffer, crc)
        if not reading.failed:
            self._send(reading, upload, span, view)
        if reading.ends_now():
            self._end(reading, upload)

    def _opened(self, reading: MultipartState) -> MultipartUpload:
        with reading.opening:
            if reading.upload is None:
                reading.upload, reading.existing_parts = most_complete_upload(
                    self._ends.store, self.entry.size, self._uploads
                )
            if reading.upload is None:
                key, metadata = self._ends.key(self.entry), oid_metadata(self.entry)
                reading.upload = self._ends.store.create_multipart(key, metadata=metadata)
            return reading.upload

    def _send(self, reading: MultipartState, upload: MultipartUpload, span: Span, view: memoryview) -> None:
        text = reading.crc_of(span)
        kept = reading.existing_parts.get(span.number)
        if kept is not None and kept.size == span.size and kept.crc32 == text:
            reading.sent(kept)
            self._ends.board.add(safe=span.size)
            return
        try:
            part = self._ends.store.put_part(upload, span.number, view, crc32=text)
        except NotFound as missing:
            self._upload_missing(reading, missing)
        else:
            reading.sent(part)
            self._ends.board.add(safe=span.size, sent=span.size)

    def _end(self, reading: MultipartState, upload: MultipartUpload) -> None:
        store = self._ends.store
        crc = reading.crc()
        try:
            reading.hasher.check(self._ends.listing.source)
            created = store.complete(upload, reading.in_order(), crc32=crc, size=self.entry.size)
        except NotFound as missing:
            self._upload_missing(reading, missing)
        except IntegrityError:
            store.abort(upload)
            self._damaged += 1
            if self._damaged > 1:
                raise
            self._again(reading)
        else:
            self.done = stored_file(self.entry, reading.hasher.sha256, crc, etag=created.etag)
            for other in self._uploads:
                if other != upload:
                    store.abort(other)

    def _upload_missing(self, reading: MultipartState, missing: NotFound) -> None:
        """Another process completed or aborted our upload: a push of the same weights, which may have finished."""
        if not reading.abandon():
            return
        self._ends.board.add(safe=-reading.safe)
        found = self._ends.store.head(self._ends.key(self.entry))
        self.done = existing_file(self.entry, found)
        if self.done is not None:
            self._ends.board.add(safe=self.entry.size)
            return
        self._lost += 1
        if self._lost >= LOST:
            raise TransferFailed(
                f"{self.entry.path}: its upload was aborted {self._lost} times by another process: {missing.message}",
                hint=GO_ON,
            ) from missing
        self._reading, self._uploads = MultipartState(self.entry), ()

    def _again(self, reading: MultipartState) -> None:
        reading.abandon()
        self._ends.board.add(safe=-reading.safe)
        self._ends.board.note_file(self.entry.path, "the data differs from its source: reading it again")
        self._reading, self._uploads = MultipartState(self.entry), ()
