"""The Hugging Face Hub, as far as a deployment needs it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.ports.source import Source


class Hub(Source, Protocol):
    """A model repository, and the source of its bytes.

    Absence, refusal and failed connections have different errors: NotFound, AccessError, TransferFailed, each with
    its remedy.
    """

    def listing(self, model_id: str, revision: str) -> ModelListing:
        """The commit that `revision` names now, and every file of it with size and oid. One look-up."""

    def read(
        self,
        listing: ModelListing,
        path: str,
        *,
        start: int = 0,
        length: int | None = None,
        refresh: bool = False,
    ) -> bytes:
        """`length` bytes of one file from `start` (all of it when None); meant for small reads.

        `refresh`: the earlier result was invalid; so bypass the local cache, which may be damaged.
        """

    def folder(self, listing: ModelListing) -> Path:
        """The (possibly future) folder of this listing's files on this machine. Makes no network request."""

    def missing(self, listing: ModelListing, files: Sequence[FileEntry]) -> int:
        """Bytes of `files` that are not whole in the user's cache yet. Looks at this machine only."""

    def require_space(self, listing: ModelListing, files: Sequence[FileEntry]) -> None:
        """TransferFailed, with the numbers, if this machine's disk has no room for the missing part of `files`."""

    def fetch(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Event, None, Path]:
        """Download `files` into the user's cache, each verified against its oid before it gets its final name.

        Yields Progress (`key` is copied into it) and returns the snapshot folder. Raises IntegrityError,
        TransferFailed or AccessError; complete data stays, and the next call resumes there.
        """

    def recheck(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Event, None, bool]:
        """Hash the local copies of `files` again, even if they were verified before; a damaged file counts as
        missing.

        Whether any was damaged; it is reported and moved away. IntegrityError, and nothing is changed, if it could
        not be downloaded again.
        """
