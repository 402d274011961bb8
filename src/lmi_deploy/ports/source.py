"""Where the bytes of a model's files come from while they are sent on: the Hub, a folder, a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from lmi_deploy.core.facts import ModelListing


class Arrived(NamedTuple):
    """How many bytes of what was asked for are there; `note` says why the source makes us wait."""

    come: int
    note: str = ""


class Source(Protocol):
    """Safe to use from several threads, each with a buffer of its own."""

    def fill(self, listing: ModelListing, path: str, buffer: memoryview, *, start: int) -> Iterator[Arrived]:
        """Put a file's bytes from `start` on into `buffer`, all of it, and say on the way how far it is.

        Nothing outside of the buffer is kept, and never more is asked for than fits. Faults are met by trying again
        from where the bytes ended; TransferFailed, AccessError, NotFound or IntegrityError when that does not help.
        """
