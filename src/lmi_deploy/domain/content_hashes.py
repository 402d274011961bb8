"""Object ids: the hash by which a source names a file's content."""

from __future__ import annotations

import hashlib
from typing import Protocol

from lmi_deploy.domain.facts import OidKind


class Digest(Protocol):
    def update(self, content: bytes | memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


def start_digest(kind: OidKind, size: int) -> Digest:
    """A digest to be fed the whole content, whose hex is the oid. Git's starts with the kind and the size."""
    if kind == "sha256":
        return hashlib.sha256()
    digest = hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % size)
    return digest


def oid_of(content: bytes, kind: OidKind) -> str:
    digest = start_digest(kind, len(content))
    digest.update(content)
    return digest.hexdigest()
