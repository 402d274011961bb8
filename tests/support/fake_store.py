"""A bucket in memory that fulfils the port ObjectStore: conditions, checksums, multipart states."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.domain.safe_paths import check_relative_path
from lmi_deploy.errors import Conflict, IntegrityError, NotFound, UsageRefused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.object_store import MultipartUpload, Part, StoredObject

CHUNK = 1 << 20
SMALLEST_PART = 5 << 20
_MODIFIED = "2026-01-01T00:00:00+00:00"


@dataclass
class _Parts:
    upload: MultipartUpload
    metadata: Mapping[str, str]
    parts: dict[int, tuple[Part, bytes]] = field(default_factory=dict)


@dataclass
class FakeStore:
    """`objects` is for tests to read, `sent` counts the bytes from this machine, `calls` every call."""

    bucket: str = "fake"
    where: str = "memory"
    smallest_part: int = SMALLEST_PART
    clock: Clock | None = None
    """S3's own: objects have their times by it, and responses their date. None: it does not move."""
    others: dict[str, FakeStore] = field(default_factory=dict)
    """Buckets that `copy` may read."""
    objects: dict[str, bytes] = field(default_factory=dict)
    sent: int = 0
    versioned: bool = False
    kms_key: str = ""
    """Of the key that encrypts every object."""
    storage_classes: dict[str, str] = field(default_factory=dict)
    """By key; the others are STANDARD."""
    part_modified: str = _MODIFIED
    """The time at which S3 receives the next parts."""
    calls: list[str] = field(default_factory=list)
    _uploads: dict[str, _Parts] = field(default_factory=dict)
    _etags: dict[str, str] = field(default_factory=dict)
    _metadata: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By key. An overwritten object has new metadata, or none."""
    _times: dict[str, str] = field(default_factory=dict)
    _count: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __deepcopy__(self, memo: dict[int, object]) -> FakeStore:
        """Its current state; the content is bytes, which are immutable."""
        clock = deepcopy(self.clock, memo)
        twin = replace(self, objects=dict(self.objects), calls=[], clock=clock, _lock=threading.RLock())
        twin._etags, twin._uploads = dict(self._etags), dict(self._uploads)
        twin._metadata = dict(self._metadata)
        twin._times = dict(self._times)
        return twin

    def head(self, key: str) -> StoredObject | None:
        with self._lock:
            self.calls.append("head")
            if key not in self.objects:
                return None
            stored = self._stored(key)
            version = f"v-{stored.etag.strip(chr(34))[:8]}" if self.versioned else ""
            metadata = self._metadata.get(key, {})
            return replace(stored, metadata=metadata, version=version, kms_key=self.kms_key)

    def get(self, key: str) -> tuple[bytes, StoredObject] | None:
        with self._lock:
            self.calls.append("get")
            if key not in self.objects:
                return None
            return self.objects[key], replace(self._stored(key), as_of=self._now())

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with self._lock:
            self.calls.append("list")
            found = [self._stored(key) for key in sorted(self.objects) if key.startswith(prefix)]
        yield from found

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str = "") -> Iterator[bytes]:
        with self._lock:
            self.calls.append("read")
            content = self._content(key)
            if etag and self._stored(key).etag != etag:
                raise self._conflict(key)
        expected = content[start : None if length is None else start + length]
        for first in range(0, len(expected), CHUNK):
            yield expected[first : first + CHUNK]

    def put(
        self, key: str, body: bytes, *, crc32: str = "", if_absent: bool = False, if_etag: str = ""
    ) -> StoredObject:
        with self._lock:
            self.calls.append("put")
            _check_key(key)
            existing = self._stored(key) if key in self.objects else None
            if (if_absent and existing is not None) or (
                if_etag and (existing is None or existing.etag != if_etag)
            ):
                raise self._conflict(key)
            self._verify(key, body, crc32 or crc32_of(body))
            self.sent += len(body)
            return self._put(key, bytes(body))

    def delete(self, keys: Sequence[str]) -> bool:
        with self._lock:
            self.calls.append("delete")
            for key in keys:
                self.objects.pop(key, None)
        return False

    def delete_versions(self, prefix: str) -> int:
        found = list(self.list(prefix))
        self.delete([stored.key for stored in found])
        return sum(stored.size for stored in found)

    def remove(self, key: str, *, if_etag: str) -> None:
        with self._lock:
            self.calls.append("remove")
            if key in self.objects and self._stored(key).etag != if_etag:
                raise self._conflict(key)
            self.objects.pop(key, None)

    def copy(
        self, source: str, key: str, *, size: int, bucket: str = "", owner: str = "", etag: str = ""
    ) -> StoredObject:
        origin = self.others[bucket] if bucket and bucket != self.bucket else self
        with self._lock:
            self.calls.append("copy")
            _check_key(key)
            content = origin._content(source)
            if etag and origin._stored(source).etag != etag:
                raise self._conflict(source)
            return self._put(key, content)

    def create_multipart(self, key: str, *, metadata: Mapping[str, str] | None = None) -> MultipartUpload:
        with self._lock:
            self.calls.append("create_multipart")
            _check_key(key)
            self._count += 1
            upload = MultipartUpload(key=key, upload_id=f"upload-{self._count}", started=_MODIFIED)
            self._uploads[upload.upload_id] = _Parts(upload, metadata or {})
            return upload

    def put_part(self, upload: MultipartUpload, number: int, body: memoryview, *, crc32: str) -> Part:
        with self._lock:
            self.calls.append("put_part")
            started = self._find_upload(upload)
            content = body.tobytes()
            self._verify(upload.key, content, crc32)
            part = Part(
                number=number,
                size=len(content),
                etag=f'"{_md5(content)}"',
                crc32=crc32,
                modified=self.part_modified,
            )
            started.parts[number] = (part, content)
            self.sent += len(content)
            return part

    def parts(self, upload: MultipartUpload) -> tuple[Part, ...]:
        with self._lock:
            self.calls.append("parts")
            return tuple(part for _, (part, _) in sorted(self._find_upload(upload).parts.items()))

    def complete(
        self, upload: MultipartUpload, parts: Sequence[Part], *, crc32: str, size: int
    ) -> StoredObject:
        with self._lock:
            self.calls.append("complete")
            content = self._joined(self._find_upload(upload), parts)
            self._verify(upload.key, content, crc32)
            if len(content) != size:
                raise IntegrityError(f"{upload.key}: {len(content)} bytes, announced were {size}")
            started = self._uploads.pop(upload.upload_id)
            digests = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
            etag = f'"{_md5(digests)}-{len(parts)}"'
            return self._put(upload.key, content, etag=etag, metadata=started.metadata)

    def abort(self, upload: MultipartUpload) -> None:
        with self._lock:
            self.calls.append("abort")
            self._uploads.pop(upload.upload_id, None)

    def uploads(self, prefix: str) -> tuple[MultipartUpload, ...]:
        with self._lock:
            self.calls.append("uploads")
            return tuple(
                started.upload for started in self._uploads.values() if started.upload.key.startswith(prefix)
            )

    def _joined(self, started: _Parts, parts: Sequence[Part]) -> bytes:
        chosen = sorted(parts, key=lambda part: part.number)
        for part in chosen:
            kept = started.parts.get(part.number)
            if kept is None or (kept[0].etag, kept[0].crc32) != (part.etag, part.crc32):
                raise IntegrityError(f"{started.upload.key}: part {part.number} is not the one that was sent")
        small = [part.number for part in chosen[:-1] if part.size < self.smallest_part]
        if small:
            raise IntegrityError(f"{started.upload.key}: part {small[0]} is smaller than S3 allows")
        return b"".join(started.parts[part.number][1] for part in chosen)

    def _put(
        self, key: str, content: bytes, *, etag: str = "", metadata: Mapping[str, str] | None = None
    ) -> StoredObject:
        self.objects[key] = content
        self._metadata[key] = metadata or {}
        self._etags[key] = etag or f'"{_md5(content)}"'
        self._times[key] = self._now()
        return self._stored(key)

    def _now(self) -> str:
        # Whole seconds, as in HTTP dates.
        return self.clock.now().replace(microsecond=0).isoformat() if self.clock else _MODIFIED

    def _stored(self, key: str) -> StoredObject:
        content = self.objects[key]
        etag = self._etags.get(key) or f'"{_md5(content)}"'
        return StoredObject(
            key=key,
            size=len(content),
            etag=etag,
            checksum=crc32_of(content),
            algorithm="CRC32",
            modified=self._times.get(key, _MODIFIED),
            storage_class=self.storage_classes.get(key, ""),
        )

    def _content(self, key: str) -> bytes:
        if key not in self.objects:
            raise NotFound(f"s3://{self.bucket}/{key}: no such object", hint="look at what is there")
        return self.objects[key]

    def _find_upload(self, upload: MultipartUpload) -> _Parts:
        if upload.upload_id not in self._uploads:
            raise NotFound(f"{upload.key}: the multipart upload does not exist", hint="begin again")
        return self._uploads[upload.upload_id]

    def _verify(self, key: str, content: bytes, crc32: str) -> None:
        if crc32_of(content) != crc32:
            raise IntegrityError(f"{key}: the bytes have CRC32 {crc32_of(content)}, announced was {crc32}")

    def _conflict(self, key: str) -> Conflict:
        return Conflict(
            f"s3://{self.bucket}/{key}: another process changed it at the same time", hint="look first"
        )


def _check_key(key: str) -> None:
    if error := check_relative_path(key):
        raise UsageRefused(f"key {key[:80]!r} {error}", hint="rename the file")


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
