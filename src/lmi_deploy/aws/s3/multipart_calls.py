"""Multipart uploads whose object has a CRC32 over all of it, which S3 verifies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lmi_deploy.aws.s3.client import S3Calls
from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.errors import IntegrityError, NotFound
from lmi_deploy.ports.object_store import MultipartUpload, Part, StoredObject

_STEP: Final = MIB


class RequestBody:
    """Memory as a body for botocore: without a copy, and re-readable from the start.

    http.client reads in steps of 16 KiB; this returns up to 1 MiB whatever size it requests.
    """

    def __init__(self, content: memoryview) -> None:
        self._content = content.cast("B")
        self._at = 0

    def __len__(self) -> int:
        return len(self._content)

    def read(self, size: int = -1) -> memoryview:
        """At least `size` bytes if there are as many left; all remaining ones for -1."""
        step = len(self._content) if size < 0 else max(size, _STEP)
        chunk = self._content[self._at : self._at + step]
        self._at += len(chunk)
        return chunk

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, len(self._content))[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at


def begin(
    calls: S3Calls, key: str, *, metadata: Mapping[str, str] | None = None, encryption: Mapping[str, Any]
) -> MultipartUpload:
    """If the reply is lost, another upload is started: `lmi gc` and the lifecycle rule remove the first.

    Without tags: S3 would require s3:PutObjectTagging for them. Metadata needs no extra permission.
    """
    recorded = {"Metadata": dict(metadata)} if metadata else {}
    response = calls(
        "create_multipart_upload",
        key=key,
        ChecksumAlgorithm="CRC32",
        ChecksumType="FULL_OBJECT",
        **recorded,
        **encryption,
    )
    return MultipartUpload(key=key, upload_id=response["UploadId"])


def put_part(calls: S3Calls, upload: MultipartUpload, number: int, *, body: memoryview, crc32: str) -> Part:
    response = calls(
        "upload_part",
        key=upload.key,
        UploadId=upload.upload_id,
        PartNumber=number,
        Body=RequestBody(body),
        ContentLength=body.nbytes,
        ChecksumAlgorithm="CRC32",
        ChecksumCRC32=crc32,
    )
    output = response.get("ChecksumCRC32") or crc32
    if output != crc32:
        raise IntegrityError(
            f"s3://{calls.bucket}/{upload.key}: S3 stored part {number} with CRC32 {output}, but lmi sent {crc32}",
            hint="run the same command again",
        )
    return Part(number=number, size=body.nbytes, etag=response["ETag"], crc32=crc32)


def parts(calls: S3Calls, upload: MultipartUpload) -> Iterator[Part]:
    tokens = {"PartNumberMarker": "NextPartNumberMarker"}
    for page in calls.pages("list_parts", tokens, key=upload.key, UploadId=upload.upload_id):
        for found in page.get("Parts", ()):
            yield Part(
                number=int(found["PartNumber"]),
                size=int(found["Size"]),
                etag=found["ETag"],
                crc32=found.get("ChecksumCRC32", ""),
                modified=found["LastModified"].isoformat(),
            )


def complete(
    calls: S3Calls, upload: MultipartUpload, chunks: Sequence[Part], *, crc32: str, size: int
) -> StoredObject | None:
    """The object; None if S3 did not return its checksum, so that the caller must look it up."""
    listed = [
        {
            "PartNumber": part.number,
            "ETag": part.etag,
            **({"ChecksumCRC32": part.crc32} if part.crc32 else {}),
        }
        for part in sorted(chunks, key=lambda part: part.number)
    ]
    response = calls(
        "complete_multipart_upload",
        key=upload.key,
        UploadId=upload.upload_id,
        MultipartUpload={"Parts": listed},
        ChecksumType="FULL_OBJECT",
        ChecksumCRC32=crc32,
        MpuObjectSize=size,
    )
    if response.get("ChecksumCRC32") != crc32:
        return None
    return StoredObject(key=upload.key, size=size, etag=response["ETag"], checksum=crc32, algorithm="CRC32")


def abort(calls: S3Calls, upload: MultipartUpload) -> None:
    try:
        calls("abort_multipart_upload", key=upload.key, UploadId=upload.upload_id)
    except NotFound as exc:
        if "no such bucket" in exc.message:
            raise


def uploads(calls: S3Calls, prefix: str) -> Iterator[MultipartUpload]:
    tokens = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
    for page in calls.pages("list_multipart_uploads", tokens, Prefix=prefix):
        for found in page.get("Uploads", ()):
            started = found["Initiated"].isoformat()
            yield MultipartUpload(key=found["Key"], upload_id=found["UploadId"], started=started)
