"""Reading an object: a broken connection is resumed at the same byte, and only for the same version of the object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any, Final

from lmi_deploy.aws.s3.client import S3Calls
from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.domain.crc32 import crc32, crc32_text
from lmi_deploy.errors import IntegrityError, TransferFailed
from lmi_deploy.host.retry_policy import FailureCount

CHUNK: Final = MIB
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


def read_object(calls: S3Calls, key: str, *, start: int, length: int | None, etag: str) -> Iterator[bytes]:
    """The chunks. A body of one chunk is verified before it is returned; for a longer one a wrong checksum of the
    whole object raises IntegrityError after the last chunk.
    """
    if length == 0:
        return
    reader = ObjectReader(calls, key, start=start, length=length, etag=etag)
    if reader.open() <= CHUNK:
        yield reader.read_all()
    else:
        yield from reader.chunks()


class ObjectReader:
    """One reading: `at` is the next byte, `stop` the one after the last."""

    def __init__(
        self, calls: S3Calls, key: str, *, start: int = 0, length: int | None = None, etag: str = ""
    ) -> None:
        self._calls = calls
        self._key = key
        self._start = start
        self._length = length
        self.etag = etag
        self.modified = ""
        self.as_of = ""
        self._begin()

    def _begin(self) -> None:
        self._at = self._start
        self._stop = -1
        self._crc = 0
        self._failures = FailureCount()
        self._gained = 0
        self._expected = ""
        self._body: Any = None

    def open(self) -> int:
        """Request the bytes; returns how many there are."""
        while True:
            response = self._calls("get_object", key=self._key, **self._request_range())
            where = self._placed(response)
            if where is not None:
                break
            response["Body"].close()
            self._failed("the response has another range than requested")
        if self._stop < 0:
            self._stop, self.etag = where, response["ETag"]
            self.modified, self.as_of = response["LastModified"].isoformat(), _date_of(response)
            self._expected = full_checksum(response, "ChecksumCRC32") if self._is_all(response) else ""
        self._body = response["Body"]
        return self._stop - self._at

    def read_all(self) -> bytes:
        """The whole body; requested once more if its checksum is wrong."""
        try:
            return b"".join(self.chunks())
        except IntegrityError:
            self._begin()
            self.open()
            return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        while self._at < self._stop:
            if self._body is None:
                self.open()
            yield from self._until_it_breaks()
        if self._expected and crc32_text(self._crc) != self._expected:
            raise IntegrityError(
                f"s3://{self._calls.bucket}/{self._key}: the received data has CRC32 {crc32_text(self._crc)}, but "
                f"S3 has {self._expected}",
                hint="run the same command again; if it fails again, the object is damaged: check it with "
                "`lmi weights verify`",
            )

    def _until_it_breaks(self) -> Iterator[bytes]:
        from botocore.exceptions import BotoCoreError

        body, self._body = self._body, None
        why = ""
        try:
            for chunk in body.iter_chunks(CHUNK):
                self._at += len(chunk)
                self._gained += len(chunk)
                self._crc = crc32(chunk, self._crc)
                yield chunk
        except BotoCoreError as exc:
            why = " ".join(str(exc).split())[:200]
        finally:
            body.close()
        if self._at < self._stop:
            self._failed(why or f"it ended {self._stop - self._at} bytes too early")

    def _failed(self, why: str) -> None:
        failures, self._gained = self._failures.add(self._gained), 0
        what = f"s3://{self._calls.bucket}/{self._key}"
        if not self._calls.policy.allows(failures):
            raise TransferFailed(
                f"{what}: broke {failures} times: {why}",
                hint="run the same command again: completed work is kept",
            )
        self._calls.notify(f"{what}: trying again from byte {self._at}: {why}")
        self._calls.pause(failures)

    def _request_range(self) -> dict[str, str]:
        requested = {"IfMatch": self.etag} if self.etag else {}
        if self._stop >= 0:
            requested["Range"] = f"bytes={self._at}-{self._stop - 1}"
        elif self._length is not None:
            requested["Range"] = f"bytes={self._at}-{self._at + self._length - 1}"
        elif self._at:
            requested["Range"] = f"bytes={self._at}-"
        return requested

    def _placed(self, response: dict[str, Any]) -> int | None:
        """The position after the last byte of the response; None if it does not start at the requested byte."""
        output = _CONTENT_RANGE.fullmatch(response.get("ContentRange", ""))
        if output is None:
            return int(response["ContentLength"]) if self._at == 0 and self._length is None else None
        return int(output[2]) + 1 if int(output[1]) == self._at else None

    def _is_all(self, response: dict[str, Any]) -> bool:
        output = _CONTENT_RANGE.fullmatch(response.get("ContentRange", ""))
        return self._at == 0 and (output is None or self._stop == int(output[3]))


def _date_of(response: dict[str, Any]) -> str:
    """The `Date` header, which every answer of S3 carries (Amazon S3 API reference, common response headers)."""
    try:
        return parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"]).isoformat()
    except (KeyError, ValueError):
        return ""


def full_checksum(response: dict[str, Any], member: str) -> str:
    """A checksum over the full object; empty if there is none, or only one composed of those of the parts."""
    output = str(response.get(member) or "")
    return "" if "-" in output or response.get("ChecksumType") == "COMPOSITE" else output
