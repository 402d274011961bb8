"""What the bucket has already of a file: an object that is whole, or the parts of an upload nobody completed."""

from __future__ import annotations

from collections.abc import Sequence

from lmi_deploy.core.facts import FileEntry
from lmi_deploy.core.weights import StoredFile
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.object_store import ObjectStore, Part, Stored, Upload
from lmi_deploy.transfer.parts import part_count, spans


def adopted(entry: FileEntry, found: Stored | None) -> StoredFile | None:
    """The object as a file of the manifest, where it can only be one of ours: those are completed after their hash.

    Ours has the size, a full-object CRC32, and as many parts as we cut.
    """
    if found is None or entry.kind != "sha256" or found.size != entry.size or found.algorithm != "CRC32":
        return None
    if not found.etag.strip('"').endswith(f"-{part_count(entry.size)}"):
        return None
    return StoredFile(
        path=entry.path,
        size=entry.size,
        sha256=entry.oid,
        oid=entry.oid,
        kind=entry.kind,
        checksum=found.checksum,
        algorithm="CRC32",
    )


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
