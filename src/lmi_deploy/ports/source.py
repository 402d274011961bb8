"""Where the bytes of a model's files come from while they are sent on: the Hub, a folder, a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

from lmi_deploy.domain.facts import ModelListing


class BytesRead(NamedTuple):
    """How many bytes of what was asked for are there, and stay; `note` says why the source makes us wait."""

    come: int
    note: str = ""


class Source(Protocol):
    """Safe to use from several threads, each with a buffer of its own."""

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        """Put a file's bytes from `start` on into `buffer`, all of it, and say on the way how far it is.

        Nothing outside of the buffer is kept, and never more is asked for than fits. Faults are met by trying again
        from where the bytes ended; TransferFailed, AccessError, NotFound or IntegrityError when that does not help.
        """


class ObjectLocation(NamedTuple):
    """Where a file lies in S3: this very version of an object, whose bytes have the oid that was listed."""

    bucket: str
    key: str
    etag: str


@runtime_checkable
class StoredSource(Source, Protocol):
    """A source whose files are objects already: S3 can copy them, and no byte need pass here."""

    def locate(self, listing: ModelListing, path: str) -> ObjectLocation | None:
        """None where this process has not seen the object."""


@runtime_checkable
class ListsSizes(Protocol):
    """A repository whose `listing` reads every byte to hash it, and that can be listed without."""

    def list_sizes(self, model_id: str) -> ModelListing:
        """Paths and sizes; `oid` and `commit` are empty."""
