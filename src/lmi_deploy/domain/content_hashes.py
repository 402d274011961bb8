"""Object ids: the hash by which a source names a file's content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lmi_deploy.domain.gathered_facts import OidKind


class Digest(Protocol):
    def update(self, content: bytes | memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


def start_digest(kind: OidKind, size: int) -> Digest:
    """A digest to be fed the whole content, whose hex is the oid. Git's starts with the kind and the size."""
    if kind == "sha256":
        return hashlib.sha256()
    if kind == "etag":
        raise ValueError("an ETag is no hash of the content: such files are not transferred")
    digest = hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % size)
    return digest


class ContentHasher:
    """The sha256 of a file, and its oid, which may be git's. To be fed the whole content in order."""

    def __init__(self, kind: OidKind, size: int) -> None:
        self._sha256 = hashlib.sha256()
        self._git = None if kind == "sha256" else start_digest(kind, size)

    def update(self, chunk: bytes | memoryview) -> None:
        self._sha256.update(chunk)
        if self._git is not None:
            self._git.update(chunk)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def oid(self) -> str:
        return (self._git or self._sha256).hexdigest()


def sha256_of(chunks: Iterable[bytes]) -> str:
    hasher = hashlib.sha256()
    for chunk in chunks:
        hasher.update(chunk)
    return hasher.hexdigest()


def oid_of(content: bytes, kind: OidKind) -> str:
    digest = start_digest(kind, len(content))
    digest.update(content)
    return digest.hexdigest()
