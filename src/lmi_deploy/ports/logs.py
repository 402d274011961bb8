"""What the containers printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class CloudLogs(Protocol):
    def group(self, endpoint: str) -> str:
        """The endpoint's log group, where there is one; empty where there is none yet."""

    def lines(self, group: str, *, start: str = "") -> Iterator[str]:
        """Oldest first, every stream, to the last page; from `start` (ISO 8601) on."""

    def follow(self, group: str, *, start: str = "") -> Iterator[str]:
        """The same, and whatever comes, until the caller stops; the group may come later, too.

        An empty text follows after everything that is there now. Who asks on at once waits for a moment.
        """

    def remove(self, group: str) -> None:
        """Absent is no error."""
