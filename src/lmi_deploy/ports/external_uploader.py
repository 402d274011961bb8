"""A program that is not ours and sends files of this machine into a bucket (`weights.engine`)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.gathered_facts import OidKind


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadItem:
    """One file and its key; in parts of `part` bytes if it is larger than that.

    Its content must have the `oid`; empty if it was already verified.
    """

    path: Path
    key: str
    size: int
    part: int
    oid: str = ""
    kind: OidKind = "sha256"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFile:
    """A file in the bucket. An uploader that hashes sets `sha256` (hex), `crc32` and `etag`."""

    key: str
    sha256: str = ""
    crc32: str = ""
    etag: str = ""


class ExternalUploader(Protocol):
    @property
    def name(self) -> str:
        """Which program, of which version."""

    @property
    def present(self) -> bool:
        """Whether it is installed."""

    @property
    def hashes(self) -> bool:
        """Whether it compares the bytes that it sends with their oid, has S3 verify them, and returns S3's response.

        If not, the caller hashes the files before, and checks the objects after.
        """

    def upload_files(
        self, loads: Sequence[UploadItem], *, bucket: str
    ) -> Generator[UploadedFile | None, None, None]:
        """Send them, and yield each that is complete; None while nothing finishes.

        The caller has checked the bucket's owner. Returns with the program: AccessError, IntegrityError or
        TransferFailed if it did not send all; closing the generator kills it. The caller must verify what arrived.
        """
