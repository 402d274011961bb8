"""The output of the containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class CloudLogs(Protocol):
    def group(self, endpoint: str, *, component: bool = False) -> str:
        """The log group of the endpoint, or of the inference component; empty if it does not exist yet."""

    def lines(self, group: str, *, start: str = "") -> Iterator[str]:
        """Oldest first, every stream, to the last page; from `start` (ISO 8601) on."""

    def follow(self, group: str, *, start: str = "") -> Iterator[str]:
        """The same, plus new lines, until the caller stops; the group may be created later.

        An empty text follows after all existing lines. The next iteration then waits for a moment.
        """

    def remove(self, group: str) -> None:
        """Absent is no error."""
