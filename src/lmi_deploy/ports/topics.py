"""SNS topics, which belong to the user."""

from __future__ import annotations

from typing import Protocol


class Topics(Protocol):
    def subscriptions(self, topic: str) -> int:
        """How many confirmed subscriptions it has. NotFound: there is no such topic."""
