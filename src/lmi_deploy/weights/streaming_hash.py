"""The hashes of one file, computed while it passes: the source's own oid, and sha256 for the manifest."""

from __future__ import annotations

from lmi_deploy.domain.content_hashes import ContentHasher
from lmi_deploy.domain.gathered_facts import FileEntry, ModelSource
from lmi_deploy.errors import IntegrityError
from lmi_deploy.host.disk import FILE_CHANGES


class FileHasher(ContentHasher):
    """Hashing lets other threads run."""

    def __init__(self, entry: FileEntry) -> None:
        super().__init__(entry.kind, entry.size)
        self._entry = entry

    def check(self, source: ModelSource) -> None:
        """IntegrityError if the bytes differ from the source's hash."""
        if self.oid == self._entry.oid:
            return
        path, kind, listed = self._entry.path, self._entry.kind, self._entry.oid
        if source == "folder":
            raise IntegrityError(
                f"{path}: it has changed since it was listed: {kind} {self.oid}, before {listed}; not kept",
                hint=FILE_CHANGES,
            )
        raise IntegrityError(
            f"{path}: {kind} {self.oid}, but its source says {listed}; not kept",
            hint="check whether a proxy changes the data; if not, the source's copy is damaged",
        )
