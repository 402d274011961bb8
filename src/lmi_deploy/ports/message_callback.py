"""Messages to the user where no event can be yielded: a wait that a service requires, a lock that is taken over."""

from __future__ import annotations

from collections.abc import Callable

Notify = Callable[[str], None]


def ignore(note: str) -> None:
    """Discards the message."""
