"""A program that is not ours and sends files of this machine into a bucket (`weights.engine`)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.facts import OidKind


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadItem:
    """One file and the key that it gets; in parts of `part` bytes where it is larger than that.

    Its content must have the `oid`; empty where somebody made sure already.
    """

    path: Path
    key: str
    size: int
    part: int
    oid: str = ""
    kind: OidKind = "sha256"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFile:
    """A file that is there. `sha256` (hex), `crc32` and `etag` are told by a carrier that hashes."""

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
        """Whether it holds the very bytes that it sends to their oid, has S3 verify them, and says what S3 answered.

        Else whoever calls hashes the files before, and looks at the objects after."""

    def upload_files(
        self, loads: Sequence[UploadItem], *, bucket: str
    ) -> Generator[UploadedFile | None, None, None]:
        """Send them, and say each that is there; None while nothing ends.

        Whoever calls has made sure who owns the bucket. Ends with the program: AccessError, IntegrityError or
        TransferFailed where it sent less than all; closed, it kills it. What arrived is to be verified.
        """
