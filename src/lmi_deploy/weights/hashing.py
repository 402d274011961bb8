"""The hashes of one file, computed while it passes: the source's own oid, and sha256 for the manifest."""

from __future__ import annotations

import hashlib

from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.errors import IntegrityError


class FileHasher:
    """To be fed the whole content in order; hashing lets other threads run."""

    def __init__(self, entry: FileEntry) -> None:
        self._entry = entry
        self._sha256 = hashlib.sha256()
        self._git = None if entry.kind == "sha256" else hashlib.sha1(usedforsecurity=False)
        if self._git is not None:
            self._git.update(b"blob %d\0" % entry.size)

    def update(self, chunk: memoryview) -> None:
        self._sha256.update(chunk)
        if self._git is not None:
            self._git.update(chunk)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def check(self) -> None:
        """IntegrityError if the bytes differ from the source's hash."""
        got = self.sha256 if self._git is None else self._git.hexdigest()
        if got != self._entry.oid:
            raise IntegrityError(
                f"{self._entry.path}: {self._entry.kind} {got} came, its source says {self._entry.oid}; not kept",
                hint="something between here and the source changes bytes (a proxy?), or the source's copy is bad",
            )
