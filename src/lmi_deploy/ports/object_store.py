"""A bucket, in our own terms. Every call sends the bucket's expected owner; the adapter ensures that.

Keys that are written are relative paths (`domain/safe_paths.py`), else UsageRefused: no key that a file system, a
proxy or another S3 server would treat as another one. Existing objects may be read by any key.

Failures: AccessError (denied, wrong owner, no or expired credentials), NotFound (no such bucket), TransferFailed (the
service or the network gave up after a limited number of retries), IntegrityError (a checksum that S3 or we refused),
Conflict for a condition that was false. An unknown outcome (a lost reply) is resolved by reading, inside the adapter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lmi_deploy.domain.in_place_weights import ObjectVersion
from lmi_deploy.domain.s3_address import Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """The current version of an object. `checksum` is the full-object checksum that S3 has, empty if it has none."""

    key: str
    size: int
    etag: str
    checksum: str = ""
    algorithm: str = ""
    modified: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The metadata set by its writer (`x-amz-meta-...`), names in lower case. Only `head` sets it."""
    version: str = ""
    """S3's version id; empty in a bucket without versioning. Only `head` sets it."""
    kms_key: str = ""
    """ARN of the KMS key that encrypts it; empty: S3's own key. Only `head` sets it."""
    storage_class: str = ""
    """S3's name of it; empty: STANDARD. `list` and `head` set it."""
    as_of: str = ""
    """The store's own clock at the response to `get`, ISO 8601; empty if the response had no date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part in S3: its number from 1, its size, and its CRC32 (base64) as stored by S3.

    `crc32` is empty in the result of `parts` for a server that stores none (moto; S3 does).
    """

    number: int
    size: int
    etag: str
    crc32: str
    modified: str = field(default="", compare=False)
    """When S3 received it, ISO 8601, UTC; only `parts` sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipartUpload:
    """A multipart upload that was started and neither completed nor aborted."""

    key: str
    upload_id: str
    started: str = ""
    """ISO 8601, UTC."""


def object_versions(prefix: Prefix, found: Iterable[StoredObject]) -> tuple[ObjectVersion, ...]:
    """A listing as far as it identifies the objects under a prefix, sorted by path. S3 lists no version ids."""
    versions = (
        ObjectVersion(path=one.key.removeprefix(prefix.path), size=one.size, etag=one.etag.strip('"'))
        for one in found
        if not one.key.endswith("/")
    )
    return tuple(sorted(versions, key=lambda one: one.path))


class ObjectStore(Protocol):
    @property
    def bucket(self) -> str: ...

    @property
    def where(self) -> str:
        """The endpoint in use, for people: the environment may have set it."""

    def head(self, key: str) -> StoredObject | None:
        """The object, with its checksum; None if it does not exist."""

    def get(self, key: str) -> tuple[bytes, StoredObject] | None:
        """A small object with its metadata, in one call; None if it does not exist."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object under a prefix, by key."""

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str = "") -> Iterator[bytes]:
        """The bytes in chunks; with `etag`, Conflict when the object was replaced meanwhile."""

    def put(
        self, key: str, body: bytes, *, crc32: str = "", if_absent: bool = False, if_etag: str = ""
    ) -> StoredObject:
        """Write a small object with a checksum that S3 verifies. Conflict if a condition is false."""

    def delete(self, keys: Sequence[str]) -> bool:
        """Remove objects; absent ones are no error. True if the bucket is versioned: it keeps them as earlier versions,
        which cost storage as before.
        """

    def delete_versions(self, prefix: str) -> int:
        """Remove every version of every object under a prefix, the current ones too; their bytes."""

    def remove(self, key: str, *, if_etag: str) -> None:
        """Delete exactly this version of an object; Conflict if another one exists now. A missing
        object is no error.
        """

    def copy(
        self, source: str, key: str, *, size: int, bucket: str = "", owner: str = "", etag: str = ""
    ) -> StoredObject:
        """Server side, in parts if it is large; the object gets a full-object checksum, and no metadata: the notes of
        the source's writer were not verified for the copy.

        From this bucket unless `bucket` names another one (in any region), which `owner` must own (empty: the owner
        of this one). With `etag`, Conflict if the source was replaced in the meantime.
        """

    def create_multipart(self, key: str, *, metadata: Mapping[str, str] | None = None) -> MultipartUpload:
        """A multipart upload whose object will have a full-object CRC32, and this metadata."""

    def put_part(self, upload: MultipartUpload, number: int, body: memoryview, *, crc32: str) -> Part:
        """One part; S3 verifies `crc32` (base64)."""

    def parts(self, upload: MultipartUpload) -> tuple[Part, ...]:
        """The parts of an upload in S3; NotFound if it no longer exists."""

    def complete(
        self, upload: MultipartUpload, parts: Sequence[Part], *, crc32: str, size: int
    ) -> StoredObject:
        """Make the object; S3 verifies the full-object checksum and the size. IntegrityError when it refuses."""

    def abort(self, upload: MultipartUpload) -> None:
        """Give an upload up; its parts are no longer stored or paid for."""

    def uploads(self, prefix: str) -> tuple[MultipartUpload, ...]:
        """Incomplete multipart uploads under a prefix."""
