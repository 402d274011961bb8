"""A file that lies in the bucket under another selection or commit: copied there, not sent again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lmi_deploy.core.facts import FileEntry
from lmi_deploy.core.weights import StoredFile
from lmi_deploy.errors import IntegrityError, NotFound
from lmi_deploy.ports.object_store import Conflict, Stored
from lmi_deploy.transfer.ends import Ends
from lmi_deploy.transfer.sending import Job, Sending
from lmi_deploy.transfer.slabs import Slab


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where else a file lies: its key, what the manifest there says of it, and its bucket when it is another one.

    Without a manifest `file` has no checksum; then `etag` names the version whose bytes are known.
    """

    key: str
    file: StoredFile
    bucket: str = ""
    etag: str = ""


class CopiedFile:
    """`otherwise` sends it after all, where the copy is gone or is not what its manifest says."""

    def __init__(self, otherwise: Sending, ends: Ends, known: Elsewhere) -> None:
        self._otherwise = otherwise
        self._ends = ends
        self._known: Elsewhere | None = known
        self._copied: StoredFile | None = None
        self._handed_out = False

    @property
    def entry(self) -> FileEntry:
        return self._otherwise.entry

    @property
    def done(self) -> StoredFile | None:
        return self._copied or self._otherwise.done

    def next_job(self) -> Job | None:
        if not self._handed_out:
            self._handed_out = True
            return self._copy
        return self._otherwise.next_job() if self._known is None else None

    def give_up(self) -> None:
        self._otherwise.give_up()

    def _copy(self, slab: Slab) -> None:
        known = self._known
        assert known is not None
        key = self._ends.key(self.entry)
        try:
            found = self._ends.store.copy(
                known.key, key, size=self.entry.size, bucket=known.bucket, etag=known.etag
            )
        except (NotFound, Conflict, IntegrityError):
            found = None
        self._copied = copied_file(self.entry, known.file, found)
        if self._copied is None:
            self._known = None
        else:
            self._ends.board.add(safe=self.entry.size)


def copied_file(entry: FileEntry, original: StoredFile, found: Stored | None) -> StoredFile | None:
    """The copy as a file of the manifest; None where S3 says that its bytes are others."""
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
