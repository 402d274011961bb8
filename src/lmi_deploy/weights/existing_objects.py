"""What already exists of a file in the bucket: a complete object, or the parts of an incomplete upload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lmi_deploy.domain.crc32 import crc32, crc32_text
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import Conflict, IntegrityError, NotFound
from lmi_deploy.ports.object_store import MultipartUpload, ObjectStore, Part, StoredObject
from lmi_deploy.weights.buffer_pool import PoolStopped
from lmi_deploy.weights.part_size import part_count, spans
from lmi_deploy.weights.single_put import stored_file
from lmi_deploy.weights.streaming_hash import FileHasher
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.upload_task import UploadTask, WithoutSending

OID_METADATA: Final = "lmi-oid"
"""On an object of lmi: the hash that was verified before its upload was completed."""


def oid_metadata(entry: FileEntry) -> Mapping[str, str]:
    """The metadata of a new upload of this file. It becomes visible with the object, so only after the hash was
    verified.
    """
    return {OID_METADATA: f"{entry.kind}:{entry.oid}"}


def existing_file(entry: FileEntry, found: StoredObject | None) -> StoredFile | None:
    """The object as a file of the manifest, if its metadata says that it was completed under this hash.

    Size, checksum and number of parts alone prove nothing: other tools create such objects, too. A git-sha1 does not
    replace the sha256 that a manifest requires.
    """
    if found is None or entry.kind != "sha256" or found.size != entry.size or found.algorithm != "CRC32":
        return None
    if dict(found.metadata).get(OID_METADATA) != oid_metadata(entry)[OID_METADATA]:
        return None
    if not found.etag.strip('"').endswith(f"-{part_count(entry.size)}"):
        return None
    return stored_file(entry, entry.oid, found.checksum, etag=found.etag)


class ExistingFile(WithoutSending):
    """An object of the right size without a recorded hash: it is read and hashed."""

    def __init__(self, otherwise: UploadTask, context: TransferContext, found: StoredObject) -> None:
        super().__init__(otherwise)
        self._ends = context
        self._found = found

    def find(self) -> StoredFile | None:
        path, progress = self.entry.path, self._ends.board
        progress.note_file(path, "hashing the object in the bucket", retry=False)
        try:
            file = self._read(self._found)
        except (NotFound, Conflict, IntegrityError):
            file = None
        else:
            progress.add(safe=self.entry.size)
        progress.note_file(path, "")
        return file

    def _read(self, found: StoredObject) -> StoredFile:
        """Of this version of the object, which its ETag names."""
        hasher, crc = FileHasher(self.entry), 0
        for chunk in self._ends.store.read(found.key, etag=found.etag):
            if self._ends.stop.is_set():
                raise PoolStopped
            hasher.update(memoryview(chunk))
            crc = crc32(chunk, crc)
        hasher.check(self._ends.listing.source)
        return stored_file(self.entry, hasher.sha256, crc32_text(crc), etag=found.etag)


def most_complete_upload(
    store: ObjectStore, size: int, uploads: Sequence[MultipartUpload]
) -> tuple[MultipartUpload | None, dict[int, Part]]:
    """The upload with the most parts of a file of this size, in our part size, and those parts; none if no upload has
    any.

    Parts without a CRC32 are another program's. S3 accepts none of lmi's beside them: an upload has one kind of
    checksum.
    """
    required = {span.number: span.size for span in spans(size)} if uploads else {}
    best: tuple[MultipartUpload | None, dict[int, Part]] = (None, {})
    for upload in uploads:
        try:
            found = store.parts(upload)
        except NotFound:
            continue
        if any(part.number not in required or not part.crc32 for part in found):
            continue
        kept = {part.number: part for part in found if part.size == required[part.number]}
        if len(kept) > len(best[1]):
            best = (upload, kept)
    return best
