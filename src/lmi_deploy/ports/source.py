"""The source of a model's files during a transfer: the Hub, a folder, a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.in_place_weights import InPlaceWeights


class BytesRead(NamedTuple):
    """The number of requested bytes that have arrived; `note` says why the source waits."""

    come: int
    note: str = ""


class Source(Protocol):
    """Safe to use from several threads, each with its own buffer."""

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        """Write a file's bytes from `start` on into `buffer`, all of it, and report the progress.

        Nothing outside of the buffer is stored, and never more is requested than fits. After faults it resumes at the
        last byte; TransferFailed, AccessError, NotFound or IntegrityError if that does not help.
        """


class ObjectLocation(NamedTuple):
    """The location of a file in S3: one version of an object, whose bytes have the listed oid."""

    bucket: str
    key: str
    etag: str


@runtime_checkable
class StoredSource(Source, Protocol):
    """A source whose files are S3 objects already: S3 can copy them without a download."""

    def locate(self, listing: ModelListing, path: str) -> ObjectLocation | None:
        """None if this process has not listed the object."""


@runtime_checkable
class ListsVersions(Protocol):
    """A repository of objects in S3, which an endpoint can read where they are."""

    def in_place(self, model_id: str) -> InPlaceWeights:
        """Every object by its version, without reading its bytes. NotFound if there are none; Unresolvable if an
        endpoint could not read one of them.
        """


@runtime_checkable
class ListsSizes(Protocol):
    """A repository whose `listing` reads every byte to hash it, and that can be listed without."""

    def list_sizes(self, model_id: str) -> ModelListing:
        """Paths and sizes; `oid` and `commit` are empty."""
