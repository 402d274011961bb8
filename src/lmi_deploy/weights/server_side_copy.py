"""A file that exists in the bucket under another selection or commit: copied there, not sent again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import Conflict, IntegrityError, NotFound
from lmi_deploy.ports.object_store import StoredObject
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.upload_task import UploadTask, WithoutSending


@dataclass(frozen=True, slots=True)
class CopySource:
    """Another location of a file: its key, its entry in the manifest there, and its bucket if that is another one.

    Without a manifest `file` has no checksum; then `etag` is the version whose bytes are known.
    """

    key: str
    file: StoredFile
    bucket: str = ""
    etag: str = ""


class CopiedFile(WithoutSending):
    """The copy may be missing, or differ from its manifest."""

    def __init__(self, otherwise: UploadTask, context: TransferContext, known: CopySource) -> None:
        super().__init__(otherwise)
        self._ends = context
        self._known = known

    def find(self) -> StoredFile | None:
        known, key = self._known, self._ends.key(self.entry)
        try:
            found = self._ends.store.copy(
                known.key, key, size=self.entry.size, bucket=known.bucket, etag=known.etag
            )
        except (NotFound, Conflict, IntegrityError):
            found = None
        copied = copied_file(self.entry, known.file, found)
        if copied is not None:
            self._ends.board.add(safe=self.entry.size)
        return copied


def copied_file(entry: FileEntry, original: StoredFile, found: StoredObject | None) -> StoredFile | None:
    """The copy as a file of the manifest; None if S3 reports other bytes."""
    if found is None or found.size != entry.size:
        return None
    same = found.algorithm == original.algorithm
    if same and original.checksum and found.checksum != original.checksum:
        return None
    if not found.checksum or (not same and found.algorithm != "CRC64NVME"):
        return None
    algorithm: Literal["CRC32", "CRC64NVME"] = original.algorithm if same else "CRC64NVME"
    return replace(
        original,
        path=entry.path,
        oid=entry.oid,
        kind=entry.kind,
        checksum=found.checksum,
        algorithm=algorithm,
        etag=found.etag.strip('"'),
    )
