"""Copies inside S3: no byte passes through this machine. Large ones are copied in parts, several at once.

S3 is the state: an interrupted copy resumes with its existing parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from lmi_deploy.aws.s3 import multipart_calls
from lmi_deploy.aws.s3.client import S3Calls
from lmi_deploy.aws.s3.object_reader import full_checksum
from lmi_deploy.domain.crc32 import crc32_joined
from lmi_deploy.errors import AccessError, Conflict, IntegrityError, LmiError, NotFound
from lmi_deploy.ports.object_store import MultipartUpload, Part, StoredObject

_PARTS_PER_CALL: Final = 2
"""S3 allows 5 GiB in one call; parts side by side are faster than that long before."""
_MOST_PARTS: Final = 10_000
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOrigin:
    """The source of a copy. With `etag`, exactly this version of it."""

    bucket: str
    key: str
    owner: str
    etag: str
    size: int

    @property
    def parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "CopySource": {"Bucket": self.bucket, "Key": self.key},
            "ExpectedSourceBucketOwner": self.owner,
        }
        if self.etag:
            found["CopySourceIfMatch"] = self.etag
        return found


@dataclass(frozen=True, slots=True)
class UnfinishedCopy:
    """An upload, and by their numbers the parts of it that need not be copied again."""

    upload: MultipartUpload
    parts: Mapping[int, Part] = field(default_factory=dict)


class Complete(Protocol):
    """`S3Store.complete`: it resolves an unknown outcome."""

    def __call__(
        self, upload: MultipartUpload, parts: Sequence[Part], *, crc32: str, size: int
    ) -> StoredObject: ...


def is_large(calls: S3Calls, size: int) -> bool:
    return size > _PARTS_PER_CALL * calls.clients.settings.copy_part_size


def copy_at_once(
    calls: S3Calls, origin: CopyOrigin, key: str, *, encryption: Mapping[str, Any]
) -> StoredObject:
    """With a full-object CRC32, which S3 computes from the bytes that it copies.

    Tags of the source are not copied: S3's default, to copy them, needs s3:GetObjectTagging and s3:PutObjectTagging.
    Nor is its metadata: lmi's notes about a verified object must not appear on one that was not verified.
    """
    response = calls(
        "copy_object",
        key=key,
        ChecksumAlgorithm="CRC32",
        TaggingDirective="REPLACE",
        MetadataDirective="REPLACE",
        **origin.parameters,
        **encryption,
    )
    created = response["CopyObjectResult"]
    return StoredObject(
        key=key,
        size=origin.size,
        etag=created["ETag"],
        checksum=created.get("ChecksumCRC32", ""),
        algorithm="CRC32" if created.get("ChecksumCRC32") else "",
    )


def unfinished_copies(calls: S3Calls, key: str, size: int) -> tuple[UnfinishedCopy, ...]:
    """Incomplete uploads for the key, the best one to resume first: it has the most of our parts."""
    required = {number: last - first + 1 for number, first, last in _spans_of(calls, size)}
    found = [upload for upload in multipart_calls.uploads(calls, key) if upload.key == key]
    started = [UnfinishedCopy(upload, _uploaded_parts(calls, upload, required)) for upload in found]
    return tuple(sorted(started, key=lambda one: -len(one.parts)))


def _uploaded_parts(calls: S3Calls, upload: MultipartUpload, required: Mapping[int, int]) -> dict[int, Part]:
    """None if one of its parts has another size, or no CRC32: then another program created that upload."""
    try:
        parts = {part.number: part for part in multipart_calls.parts(calls, upload)}
    except NotFound:
        return {}
    is_owned = all(required.get(part.number) == part.size and part.crc32 for part in parts.values())
    return parts if is_owned else {}


def copy_in_parts(
    calls: S3Calls, origin: CopyOrigin, started: UnfinishedCopy, complete: Complete
) -> StoredObject:
    """Copy all of `origin` into the object of the upload. Its parts stay if the same command can resume with them."""
    try:
        of_source = _checksum_of_source(calls, origin)
        # Without a CRC32 of the source version it is unknown whether existing parts are of it, too.
        existing = started.parts if of_source or not origin.etag else {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            spans = _spans_of(calls, origin.size)
            chunks = list(
                pool.map(
                    lambda span: existing.get(span[0]) or _copy_part(calls, origin, started.upload, span),
                    spans,
                )
            )
        crc32 = _agreed(origin, chunks, of_source)
        return complete(started.upload, chunks, crc32=crc32, size=origin.size)
    except (IntegrityError, NotFound, Conflict):
        give_up(calls, started.upload)
        raise


def give_up(calls: S3Calls, upload: MultipartUpload) -> None:
    """`lmi gc` finds what cannot be aborted now."""
    with suppress(LmiError):
        multipart_calls.abort(calls, upload)


def _copy_part(
    calls: S3Calls, origin: CopyOrigin, upload: MultipartUpload, chunk: tuple[int, int, int]
) -> Part:
    number, first, last = chunk
    response = calls(
        "upload_part_copy",
        key=upload.key,
        UploadId=upload.upload_id,
        PartNumber=number,
        CopySourceRange=f"bytes={first}-{last}",
        **origin.parameters,
    )
    created = response["CopyPartResult"]
    return Part(
        number=number, size=last - first + 1, etag=created["ETag"], crc32=created.get("ChecksumCRC32", "")
    )


def _agreed(origin: CopyOrigin, chunks: Sequence[Part], of_source: str) -> str:
    """The checksum of the whole, from the source and from the parts, as far as each is known."""
    of_parts = ""
    if all(chunk.crc32 for chunk in chunks):
        of_parts = crc32_joined((chunk.crc32, chunk.size) for chunk in chunks)
    if of_source and of_parts and of_source != of_parts:
        raise IntegrityError(
            f"s3://{origin.bucket}/{origin.key}: its CRC32 is {of_source}, but its copied parts have {of_parts}",
            hint="run the same command again; some S3 servers other than AWS cannot copy in parts",
        )
    if not (of_source or of_parts):
        raise IntegrityError(
            f"s3://{origin.bucket}/{origin.key}: neither the object nor its copied parts have a CRC32",
            hint="copy it through this machine: `lmi weights push` with the s3:// prefix as model_id",
        )
    return of_source or of_parts


def _checksum_of_source(calls: S3Calls, origin: CopyOrigin) -> str:
    """Empty if S3 has none, or if this client cannot read it: a bucket in another region."""
    source_calls = S3Calls(calls.clients, origin.bucket, origin.owner, clock=calls.clock, notify=calls.notify)
    try:
        response = source_calls("head_object", key=origin.key, ChecksumMode="ENABLED")
    except AccessError:
        return ""
    return full_checksum(response, "ChecksumCRC32")


def _spans_of(calls: S3Calls, size: int) -> Iterator[tuple[int, int, int]]:
    """Number, first and last byte of each part."""
    length = max(calls.clients.settings.copy_part_size, -(-size // _MOST_PARTS))
    for number, first in enumerate(range(0, size, length), 1):
        yield number, first, min(first + length, size) - 1
