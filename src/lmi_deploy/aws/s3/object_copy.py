"""Copies inside S3: no byte passes through this machine. Large ones go in parts, several at once.

S3 is the state: a copy that was ended goes on with the parts that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from lmi_deploy.aws.s3 import multipart
from lmi_deploy.aws.s3.client import Calls
from lmi_deploy.aws.s3.object_reader import full_checksum
from lmi_deploy.domain.crc32 import crc32_joined
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, NotFound
from lmi_deploy.ports.object_store import Conflict, Part, Stored, Upload

_PIECES_IN_ONE_CALL: Final = 2
"""S3 allows 5 GiB in one call; parts side by side are faster than that long before."""
_MOST_PARTS: Final = 10_000
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What is copied. With `etag`, this very version of it."""

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
class Begun:
    """An upload, and by their numbers the parts of it that need not be copied again."""

    upload: Upload
    parts: Mapping[int, Part] = field(default_factory=dict)


class Complete(Protocol):
    """`S3Store.complete`: an unknown outcome is settled in it."""

    def __call__(self, upload: Upload, parts: Sequence[Part], *, crc32: str, size: int) -> Stored: ...


def is_large(calls: Calls, size: int) -> bool:
    return size > _PIECES_IN_ONE_CALL * calls.clients.settings.copy_piece


def copy_at_once(calls: Calls, origin: Origin, key: str, *, encryption: Mapping[str, Any]) -> Stored:
    """With a full-object CRC32, which S3 computes from the bytes that it copies.

    Tags of the source stay there: taking them over, S3's default, needs s3:GetObjectTagging and s3:PutObjectTagging. So
    does its metadata: what lmi notes of an object that it has verified must not travel to one that it has not.
    """
    answer = calls(
        "copy_object",
        key=key,
        ChecksumAlgorithm="CRC32",
        TaggingDirective="REPLACE",
        MetadataDirective="REPLACE",
        **origin.parameters,
        **encryption,
    )
    made = answer["CopyObjectResult"]
    return Stored(
        key=key,
        size=origin.size,
        etag=made["ETag"],
        checksum=made.get("ChecksumCRC32", ""),
        algorithm="CRC32" if made.get("ChecksumCRC32") else "",
    )


def begun_before(calls: Calls, key: str, size: int) -> tuple[Begun, ...]:
    """Uploads for the key that nobody completed, the one to go on with first: it has the most of our parts."""
    wanted = {number: last - first + 1 for number, first, last in _spans_of(calls, size)}
    found = [upload for upload in multipart.uploads(calls, key) if upload.key == key]
    begun = [Begun(upload, _kept(calls, upload, wanted)) for upload in found]
    return tuple(sorted(begun, key=lambda one: -len(one.parts)))


def _kept(calls: Calls, upload: Upload, wanted: Mapping[int, int]) -> dict[int, Part]:
    """None where one of its parts was cut otherwise, or has no CRC32: that upload is somebody else's."""
    try:
        parts = {part.number: part for part in multipart.parts(calls, upload)}
    except NotFound:
        return {}
    ours = all(wanted.get(part.number) == part.size and part.crc32 for part in parts.values())
    return parts if ours else {}


def copy_in_parts(calls: Calls, origin: Origin, begun: Begun, complete: Complete) -> Stored:
    """All of `origin` becomes the object of the upload. Its parts stay where the same command can go on with them."""
    try:
        of_source = _checksum_of_source(calls, origin)
        # Of a version that has no CRC32 nobody could tell whether parts that lie there are of it, too.
        there = begun.parts if of_source or not origin.etag else {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            spans = _spans_of(calls, origin.size)
            pieces = list(
                pool.map(
                    lambda span: there.get(span[0]) or _copy_part(calls, origin, begun.upload, span), spans
                )
            )
        crc32 = _agreed(origin, pieces, of_source)
        return complete(begun.upload, pieces, crc32=crc32, size=origin.size)
    except (IntegrityError, NotFound, Conflict):
        give_up(calls, begun.upload)
        raise


def give_up(calls: Calls, upload: Upload) -> None:
    """What cannot be aborted now is found by `lmi gc`."""
    with suppress(LmiError):
        multipart.abort(calls, upload)


def _copy_part(calls: Calls, origin: Origin, upload: Upload, piece: tuple[int, int, int]) -> Part:
    number, first, last = piece
    answer = calls(
        "upload_part_copy",
        key=upload.key,
        UploadId=upload.upload_id,
        PartNumber=number,
        CopySourceRange=f"bytes={first}-{last}",
        **origin.parameters,
    )
    made = answer["CopyPartResult"]
    return Part(number=number, size=last - first + 1, etag=made["ETag"], crc32=made.get("ChecksumCRC32", ""))


def _agreed(origin: Origin, pieces: Sequence[Part], of_source: str) -> str:
    """The checksum of the whole, by the source and by the parts, as far as each is known."""
    of_parts = ""
    if all(piece.crc32 for piece in pieces):
        of_parts = crc32_joined((piece.crc32, piece.size) for piece in pieces)
    if of_source and of_parts and of_source != of_parts:
        raise IntegrityError(
            f"s3://{origin.bucket}/{origin.key}: it has CRC32 {of_source}, the parts copied of it have {of_parts}",
            hint="run the same command again; some servers that are not AWS cannot copy in parts",
        )
    if not (of_source or of_parts):
        raise IntegrityError(
            f"s3://{origin.bucket}/{origin.key}: neither it nor the parts copied of it have a CRC32",
            hint="copy it through this machine: `lmi weights push` with the s3:// prefix as model_id",
        )
    return of_source or of_parts


def _checksum_of_source(calls: Calls, origin: Origin) -> str:
    """Empty where S3 keeps none, or where this client cannot ask: a bucket in another region."""
    there = Calls(calls.clients, origin.bucket, origin.owner, clock=calls.clock, tell=calls.tell)
    try:
        answer = there("head_object", key=origin.key, ChecksumMode="ENABLED")
    except AccessError:
        return ""
    return full_checksum(answer, "ChecksumCRC32")


def _spans_of(calls: Calls, size: int) -> Iterator[tuple[int, int, int]]:
    """Number, first and last byte of each part."""
    length = max(calls.clients.settings.copy_piece, -(-size // _MOST_PARTS))
    for number, first in enumerate(range(0, size, length), 1):
        yield number, first, min(first + length, size) - 1
