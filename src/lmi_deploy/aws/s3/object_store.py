"""S3 behind the port ObjectStore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.aws.s3 import multipart_calls, object_copy
from lmi_deploy.aws.s3.client import S3Calls
from lmi_deploy.aws.s3.client_factory import S3Clients, S3Settings
from lmi_deploy.aws.s3.error_messages import PreconditionFailed
from lmi_deploy.aws.s3.object_reader import ObjectReader, full_checksum, read_object
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.safe_paths import check_relative_path
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, NotFound, TransferFailed, UsageRefused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify, ignore
from lmi_deploy.ports.object_store import MultipartUpload, Part, StoredObject

_MOST_KEYS: Final = 1000
_CHECKSUMS: Final = ("CRC32", "CRC64NVME", "CRC32C", "SHA256", "SHA1")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLocation:
    """A bucket and its required owner. `kms_key`: encrypt with it; empty leaves it to the bucket's default."""

    bucket: str
    owner: str
    kms_key: str = ""


class S3Store:
    """The port ObjectStore. Safe to use from several threads."""

    def __init__(
        self,
        session: SessionFactory,
        place: BucketLocation,
        *,
        clock: Clock,
        settings: S3Settings | None = None,
        notify: Notify = ignore,
        guard: LeaseGuard | None = None,
    ) -> None:
        clients = S3Clients(session, settings or S3Settings(), guard=guard)
        self._calls = S3Calls(clients, place.bucket, place.owner, clock=clock, notify=notify)
        self._place = place
        self._bucket_found = False

    @property
    def bucket(self) -> str:
        return self._place.bucket

    @property
    def where(self) -> str:
        """The URL of the endpoint in use, for people: it may have been set by the environment."""
        return self._calls.clients.endpoint

    def head(self, key: str) -> StoredObject | None:
        try:
            response = self._calls("head_object", key=key, ChecksumMode="ENABLED")
        except NotFound:
            self._require_bucket()
            return None
        self._bucket_found = True
        return _stored(key, int(response["ContentLength"]), response)

    def get(self, key: str) -> tuple[bytes, StoredObject] | None:
        reader = ObjectReader(self._calls, key)
        try:
            reader.open()
        except NotFound as exc:
            if "no such bucket" in exc.message:
                raise
            return None
        content = reader.read_all()
        return content, StoredObject(
            key=key, size=len(content), etag=reader.etag, modified=reader.modified, as_of=reader.as_of
        )

    def list(self, prefix: str) -> Iterator[StoredObject]:
        tokens = {"ContinuationToken": "NextContinuationToken"}
        for page in self._calls.pages("list_objects_v2", tokens, Prefix=prefix):
            for found in page.get("Contents", ()):
                yield StoredObject(
                    key=found["Key"],
                    size=int(found["Size"]),
                    etag=found["ETag"],
                    modified=found["LastModified"].isoformat(),
                    storage_class=_storage_class(found),
                )

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str = "") -> Iterator[bytes]:
        return read_object(self._calls, key, start=start, length=length, etag=etag)

    def put(
        self, key: str, body: bytes, *, crc32: str = "", if_absent: bool = False, if_etag: str = ""
    ) -> StoredObject:
        _check_key(key)
        crc32 = crc32 or crc32_of(body)
        condition = {"IfNoneMatch": "*"} if if_absent else {"IfMatch": if_etag} if if_etag else {}
        try:
            response = self._calls(
                "put_object",
                key=key,
                Body=body,
                ChecksumAlgorithm="CRC32",
                ChecksumCRC32=crc32,
                **condition,
                **self._encryption,
            )
        except PreconditionFailed as exc:
            return self._resolve_conflict(key, body, exc)
        except NotFound as exc:
            if if_etag and "no such object" in exc.message:
                raise PreconditionFailed(
                    f"s3://{self.bucket}/{key}: another process deleted it", hint=exc.hint
                ) from exc
            raise
        _same_sum(key, response.get("ChecksumCRC32"), crc32)
        return StoredObject(key=key, size=len(body), etag=response["ETag"], checksum=crc32, algorithm="CRC32")

    def delete(self, keys: Sequence[str]) -> bool:
        return self._delete([{"Key": key} for key in keys])

    def delete_versions(self, prefix: str) -> int:
        size, found = 0, []
        tokens = {"KeyMarker": "NextKeyMarker", "VersionIdMarker": "NextVersionIdMarker"}
        for page in self._calls.pages("list_object_versions", tokens, Prefix=prefix):
            for one in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                found.append({"Key": one["Key"], "VersionId": one["VersionId"]})
                size += int(one.get("Size", 0))
        self._delete(found)
        return size

    def remove(self, key: str, *, if_etag: str) -> None:
        try:
            self._calls("delete_object", key=key, IfMatch=if_etag)
        except PreconditionFailed:
            if self.head(key) is not None:
                raise
        except NotFound as exc:
            if "no such bucket" in exc.message:
                raise

    def copy(
        self, source: str, key: str, *, size: int, bucket: str = "", owner: str = "", etag: str = ""
    ) -> StoredObject:
        _check_key(key)
        origin = object_copy.CopyOrigin(
            bucket=bucket or self.bucket, key=source, owner=owner or self._place.owner, etag=etag, size=size
        )
        if not object_copy.is_large(self._calls, size):
            return object_copy.copy_at_once(self._calls, origin, key, encryption=self._encryption)
        return self._copy_in_parts(origin, key)

    def create_multipart(self, key: str, *, metadata: Mapping[str, str] | None = None) -> MultipartUpload:
        _check_key(key)
        return multipart_calls.begin(self._calls, key, metadata=metadata, encryption=self._encryption)

    def put_part(self, upload: MultipartUpload, number: int, body: memoryview, *, crc32: str) -> Part:
        return multipart_calls.put_part(self._calls, upload, number, body=body, crc32=crc32)

    def parts(self, upload: MultipartUpload) -> tuple[Part, ...]:
        return tuple(multipart_calls.parts(self._calls, upload))

    def complete(
        self, upload: MultipartUpload, parts: Sequence[Part], *, crc32: str, size: int
    ) -> StoredObject:
        try:
            created = multipart_calls.complete(self._calls, upload, parts, crc32=crc32, size=size)
        except (NotFound, TransferFailed, AccessError) as exc:
            return self._confirm_created(upload.key, crc32, size, exc)
        return created or self._confirm_created(upload.key, crc32, size, None)

    def abort(self, upload: MultipartUpload) -> None:
        multipart_calls.abort(self._calls, upload)

    def uploads(self, prefix: str) -> tuple[MultipartUpload, ...]:
        return tuple(multipart_calls.uploads(self._calls, prefix))

    @property
    def _encryption(self) -> dict[str, Any]:
        if not self._place.kms_key:
            return {}
        return {
            "ServerSideEncryption": "aws:kms",
            "SSEKMSKeyId": self._place.kms_key,
            "BucketKeyEnabled": True,
        }

    def _copy_in_parts(self, origin: object_copy.CopyOrigin, key: str) -> StoredObject:
        before = object_copy.unfinished_copies(self._calls, key, origin.size)
        copied = None
        if before and before[0].parts:
            # If its parts are not of this source, or no longer exist, the copy starts again.
            with suppress(IntegrityError, NotFound):
                copied = object_copy.copy_in_parts(self._calls, origin, before[0], self.complete)
        copied = copied or self._copy_again(origin, key)
        for other in before:
            object_copy.give_up(self._calls, other.upload)
        return copied

    def _copy_again(self, origin: object_copy.CopyOrigin, key: str) -> StoredObject:
        new = object_copy.UnfinishedCopy(self.create_multipart(key))
        try:
            return object_copy.copy_in_parts(self._calls, origin, new, self.complete)
        except NotFound:
            # Another process that copies the same resumed our upload, and completed it.
            found = None if origin.etag else self.head(key)
            if found is None or (found.size, found.algorithm) != (origin.size, "CRC32"):
                raise
            return found

    def _require_bucket(self) -> None:
        """HEAD answers 404 for a missing object and for a missing bucket alike."""
        if not self._bucket_found:
            self._calls("head_bucket")
            self._bucket_found = True

    def _resolve_conflict(self, key: str, body: bytes, unmet: PreconditionFailed) -> StoredObject:
        """If our own earlier request, whose reply was lost, made the condition false, this is no conflict."""
        found = self.get(key) if unmet.resent else None
        if found is None or found[0] != body:
            raise unmet
        return StoredObject(
            key=key, size=len(body), etag=found[1].etag, checksum=crc32_of(body), algorithm="CRC32"
        )

    def _confirm_created(self, key: str, crc32: str, size: int, failure: LmiError | None) -> StoredObject:
        """After an unknown outcome: check that the object exists and is the intended one; else raise the failure."""
        try:
            found = self.head(key)
        except LmiError as exc:
            raise failure or exc from exc
        if found is not None and (found.size, found.checksum) == (size, crc32):
            return found
        if failure is not None:
            raise failure
        raise IntegrityError(
            f"s3://{self.bucket}/{key}: S3 reported it as complete, but has {found or 'nothing'}",
            hint="run the same command again",
        )

    def _delete(self, objects: Sequence[Mapping[str, str]]) -> bool:
        """True if S3 left delete markers, as it does in a versioned bucket."""
        marked = False
        for first in range(0, len(objects), _MOST_KEYS):
            marked |= self._delete_batch(objects[first : first + _MOST_KEYS])
        return marked

    def _delete_batch(self, objects: Sequence[Mapping[str, str]]) -> bool:
        left, marked = list(objects), False
        for count in range(1, self._calls.policy.attempts + 1):
            response = self._calls("delete_objects", Delete={"Objects": left})
            marked |= any(
                "VersionId" not in one and one.get("DeleteMarker") for one in response.get("Deleted", ())
            )
            refused = response.get("Errors", ())
            denied = [error for error in refused if error.get("Code") == "AccessDenied"]
            if denied:
                raise self._calls.denied("delete_object", denied[0]["Key"], denied[0])
            again = {error["Key"] for error in refused if error.get("Code") != "NoSuchKey"}
            left = [one for one in left if one["Key"] in again]
            if not left:
                return marked
            self._calls.pause(count)
        raise TransferFailed(
            f"s3://{self.bucket}: {counted(len(left), 'object')} could not be removed, the first is {left[0]['Key']}: "
            f"{refused[0].get('Code')}: {refused[0].get('Message')}",
            hint="run the same command again",
        )


def _check_key(key: str) -> None:
    if error := check_relative_path(key):
        raise UsageRefused(
            f"key {key[:80]!r} {error}", hint="rename the file, or exclude it with files.ignore"
        )


def _stored(key: str, size: int, response: dict[str, Any]) -> StoredObject:
    sums = ((name, full_checksum(response, f"Checksum{name}")) for name in _CHECKSUMS)
    algorithm, checksum = next((pair for pair in sums if pair[1]), ("", ""))
    return StoredObject(
        key=key,
        size=size,
        etag=response["ETag"],
        checksum=checksum,
        algorithm=algorithm,
        modified=response["LastModified"].isoformat(),
        metadata={name.lower(): value for name, value in response.get("Metadata", {}).items()},
        # "null": uploaded before the bucket had versioning, or while it was suspended.
        version=str(response.get("VersionId") or "").removeprefix("null"),
        kms_key=str(response.get("SSEKMSKeyId") or ""),
        storage_class=_storage_class(response),
    )


def _storage_class(response: dict[str, Any]) -> str:
    """A listing names STANDARD, a HEAD leaves it out (S3 API reference, HeadObject: x-amz-storage-class)."""
    found = str(response.get("StorageClass") or "")
    return "" if found == "STANDARD" else found


def _same_sum(key: str, output: str | None, own: str) -> None:
    if output and output != own:
        raise IntegrityError(
            f"{key}: S3 stored it with CRC32 {output}, but lmi sent {own}",
            hint="run the same command again",
        )
