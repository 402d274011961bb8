"""What the bucket has already of a file: an object that is whole, or the parts of an upload nobody completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lmi_deploy.domain.crc32 import crc32, crc32_text
from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import Conflict, IntegrityError, NotFound
from lmi_deploy.ports.object_store import ObjectStore, Part, Stored, Upload
from lmi_deploy.weights.buffer_pool import Stopped
from lmi_deploy.weights.context import Ends
from lmi_deploy.weights.hashing import Seal
from lmi_deploy.weights.part_size import part_count, spans
from lmi_deploy.weights.single_put import stored_file
from lmi_deploy.weights.upload_task import Sending, WithoutSending

OID_METADATA: Final = "lmi-oid"
"""On an object of ours: the hash that its upload was held to before it was completed."""


def oid_metadata(entry: FileEntry) -> Mapping[str, str]:
    """What an upload of this file is created with. It comes into being with the object, so only after the hash."""
    return {OID_METADATA: f"{entry.kind}:{entry.oid}"}


def adopted(entry: FileEntry, found: Stored | None) -> StoredFile | None:
    """The object as a file of the manifest, where its metadata says that it was completed under this very hash.

    Size, checksum and number of parts alone prove nothing: other tools make such objects, too. A git-sha1 is not the
    sha256 that a manifest promises.
    """
    if found is None or entry.kind != "sha256" or found.size != entry.size or found.algorithm != "CRC32":
        return None
    if dict(found.metadata).get(OID_METADATA) != oid_metadata(entry)[OID_METADATA]:
        return None
    if not found.etag.strip('"').endswith(f"-{part_count(entry.size)}"):
        return None
    return stored_file(entry, entry.oid, found.checksum, etag=found.etag)


class ExistingFile(WithoutSending):
    """An object of the right size whose hash nobody noted: it is read and hashed."""

    def __init__(self, otherwise: Sending, ends: Ends, found: Stored) -> None:
        super().__init__(otherwise)
        self._ends = ends
        self._found = found

    def find(self) -> StoredFile | None:
        path, board = self.entry.path, self._ends.board
        board.say(path, "reading the object that the bucket has, to hash it", retry=False)
        try:
            file = self._read(self._found)
        except (NotFound, Conflict, IntegrityError):
            file = None
        else:
            board.add(safe=self.entry.size)
        board.say(path, "")
        return file

    def _read(self, found: Stored) -> StoredFile:
        """Of this version of the object, which its ETag names."""
        seal, crc = Seal(self.entry), 0
        for chunk in self._ends.store.read(found.key, etag=found.etag):
            if self._ends.stop.is_set():
                raise Stopped
            seal.update(memoryview(chunk))
            crc = crc32(chunk, crc)
        seal.check()
        return stored_file(self.entry, seal.sha256, crc32_text(crc), etag=found.etag)


def fullest(
    store: ObjectStore, size: int, uploads: Sequence[Upload]
) -> tuple[Upload | None, dict[int, Part]]:
    """The upload that has most of a file of this size, cut as we cut it, and those parts; none where none has any.

    Parts without a CRC32 are another engine's. S3 takes none of ours beside them: an upload has one kind of checksum.
    """
    wanted = {span.number: span.size for span in spans(size)} if uploads else {}
    best: tuple[Upload | None, dict[int, Part]] = (None, {})
    for upload in uploads:
        try:
            found = store.parts(upload)
        except NotFound:
            continue
        if any(part.number not in wanted or not part.crc32 for part in found):
            continue
        kept = {part.number: part for part in found if part.size == wanted[part.number]}
        if len(kept) > len(best[1]):
            best = (upload, kept)
    return best
