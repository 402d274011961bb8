"""Copies inside S3: no byte passes through this machine. Large ones go in parts, several at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.adapters.s3 import multipart
from lmi_deploy.adapters.s3.calls import Calls
from lmi_deploy.core.crc32 import crc32_joined
from lmi_deploy.errors import IntegrityError
from lmi_deploy.ports.object_store import Part, Stored, Upload

ONE_CALL: Final = 1 << 30
"""S3 allows 5 GiB in one call; parts side by side are faster than one after the other, long before that."""
PIECE: Final = 512 << 20
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


def copy(calls: Calls, origin: Origin, key: str, *, encryption: Mapping[str, Any]) -> Stored:
    """With a full-object CRC32, which S3 computes from the bytes that it copies."""
    if origin.size > ONE_CALL:
        return _in_parts(calls, origin, key, encryption)
    answer = calls("copy_object", key=key, ChecksumAlgorithm="CRC32", **origin.parameters, **encryption)
    made = answer["CopyObjectResult"]
    return Stored(
        key=key,
        size=origin.size,
        etag=made["ETag"],
        checksum=made.get("ChecksumCRC32", ""),
        algorithm="CRC32" if made.get("ChecksumCRC32") else "",
    )


def _in_parts(calls: Calls, origin: Origin, key: str, encryption: Mapping[str, Any]) -> Stored:
    upload = multipart.begin(calls, key, tags={}, encryption=encryption)
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            pieces = list(
                pool.map(lambda piece: _copy_part(calls, origin, upload, piece), _pieces(origin.size))
            )
        crc32 = crc32_joined((piece.crc32, piece.size) for piece in pieces)
        made = multipart.complete(calls, upload, pieces, crc32=crc32, size=origin.size)
    except BaseException:
        multipart.abort(calls, upload)
        raise
    if made is None:
        raise IntegrityError(f"s3://{calls.bucket}/{key}: the copy has another checksum than its parts")
    return made


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


def _pieces(size: int) -> Iterator[tuple[int, int, int]]:
    """Number, first and last byte of each part."""
    length = max(PIECE, -(-size // _MOST_PARTS))
    for number, first in enumerate(range(0, size, length), 1):
        yield number, first, min(first + length, size) - 1
