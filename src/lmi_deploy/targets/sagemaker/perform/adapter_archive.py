"""The tar.gz of an adapter component: from the stored files of the adapter, each verified again, into the bucket.

A stream through this machine: S3 packs nothing. It takes the memory of one part.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.domain.content_hashes import ContentHasher
from lmi_deploy.domain.crc32 import crc32, crc32_of, crc32_text
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.sagemaker.adapter_actions import PackAdapter
from lmi_deploy.domain.sagemaker.s3_layout import ADAPTER_ARCHIVE, artifact_prefix
from lmi_deploy.domain.weights import weights_prefix
from lmi_deploy.errors import Conflict, IntegrityError
from lmi_deploy.ports.object_store import MultipartUpload, ObjectStore, Part
from lmi_deploy.targets.target import Outcome

_PART: Final = 8 * MIB
_LEVEL: Final = 1
"""Of gzip: tensors hardly get smaller."""


def pack_adapter(store: ObjectStore, spec: Spec, action: PackAdapter) -> Generator[Event, None, Outcome]:
    """The object exists completely or not at all, and its name is that of its content: an existing one is right."""
    key = artifact_prefix(spec.name, action.artifact) + ADAPTER_ARCHIVE
    if store.head(key) is not None:
        return "packed before"
    (adapter, *_) = (each for each in spec.weights.adapters if each.weights_name == action.weights)
    for left in store.uploads(key):
        store.abort(left)
    archive, done = _ArchiveUpload(store, key), 0
    try:
        packed = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=archive, mtime=0)
        with packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for file in adapter.files:
                _add(tar, file, store, weights_prefix(action.weights) + file.path)
                done += file.size
                yield Progress(key=action.key, done=done, total=adapter.size, unit="bytes", note=file.path)
        archive.complete()
    except BaseException:
        archive.abort()
        raise
    return counted(len(adapter.files), "file")


def _add(tar: tarfile.TarFile, file: FileEntry, store: ObjectStore, key: str) -> None:
    entry = tarfile.TarInfo(file.path)
    entry.size, entry.mode = file.size, 0o644
    content = _Verified(store.read(key), ContentHasher(file.kind, file.size))
    try:
        tar.addfile(entry, content)
    except OSError as exc:  # it is shorter
        raise _damaged(store, key) from exc
    if content.hasher.oid != file.oid or content.read(1):
        raise _damaged(store, key)


def _damaged(store: ObjectStore, key: str) -> IntegrityError:
    return IntegrityError(
        f"s3://{store.bucket}/{key}: its content is not the adapter's file that was verified",
        hint="another program changed it. Delete the object, and run the same command again",
    )


class _Verified(io.RawIOBase):
    """A file in S3 as a stream that is hashed while it is read."""

    def __init__(self, chunks: Iterator[bytes], hasher: ContentHasher) -> None:
        super().__init__()
        self.hasher = hasher
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = chunk
        pieces, wanted = [], size
        while wanted and self._rest:
            piece = self._rest if wanted < 0 else self._rest[:wanted]
            self._rest = self._rest[len(piece) :] or next(self._chunks, b"")
            wanted -= len(piece) if wanted > 0 else 0
            self.hasher.update(piece)
            pieces.append(piece)
        return b"".join(pieces)


@dataclass(slots=True)
class _ArchiveUpload(io.RawIOBase):
    """What is written becomes one object: in one request, or in parts if it is large."""

    store: ObjectStore
    key: str
    size: int = 0
    crc: int = 0
    waiting: bytearray = field(default_factory=bytearray)
    parts: list[Part] = field(default_factory=list)
    upload: MultipartUpload | None = None

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.size += len(data)
        self.crc = crc32(data, self.crc)
        self.waiting += data
        while len(self.waiting) > _PART:
            self._send(bytes(self.waiting[:_PART]))
            del self.waiting[:_PART]
        return len(data)

    def complete(self) -> None:
        if self.upload is None:
            try:
                self.store.put(self.key, bytes(self.waiting), crc32=crc32_text(self.crc), if_absent=True)
            except Conflict:
                return  # another `up` packed the same files
            return
        self._send(bytes(self.waiting))
        self.store.complete(self.upload, self.parts, crc32=crc32_text(self.crc), size=self.size)

    def abort(self) -> None:
        if self.upload is not None:
            self.store.abort(self.upload)

    def _send(self, body: bytes) -> None:
        self.upload = self.upload or self.store.create_multipart(self.key)
        number, crc = len(self.parts) + 1, crc32_of(body)
        self.parts.append(self.store.put_part(self.upload, number, memoryview(body), crc32=crc))
