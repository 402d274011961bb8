"""Fencing: this process sends no changing request while one of its locks may have expired.

AWS has no fencing tokens, so the holder checks itself, before every attempt of every request: a process that was
suspended (SIGSTOP, a closed laptop) continues where it stopped, with a request that is ready to be sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

_READING: Final = ("Assume", "Describe", "Filter", "Get", "Head", "Invoke", "List", "Search", "Simulate")
"""The first words of the names of AWS operations that change nothing."""


class Lease(Protocol):
    def ensure(self) -> None:
        """Return while the lock is ours, after renewing it if in doubt; else LockLost."""


class LeaseGuard:
    """The leases of this process's locks."""

    def __init__(self) -> None:
        self._leases: list[Lease] = []
        self._thread = threading.local()

    @contextmanager
    def watch(self, lease: Lease) -> Iterator[None]:
        """Check this lease, too, for as long as the context lasts."""
        self._leases.append(lease)
        try:
            yield
        finally:
            self._leases.remove(lease)

    @property
    def is_watching(self) -> bool:
        """Whether any lock is held."""
        return bool(self._leases)

    @contextmanager
    def exempt(self) -> Iterator[None]:
        """The requests of this thread are the lock's own."""
        self._thread.exempt = True
        try:
            yield
        finally:
            self._thread.exempt = False

    def check(self) -> None:
        """LockLost if one of the locks is no longer ours."""
        if not getattr(self._thread, "exempt", False):
            for lease in tuple(self._leases):
                lease.ensure()

    def attach(self, client: Any) -> None:
        """Check before each try of each request of this boto3 client that changes something."""
        client.meta.events.register_first("before-send", self._before_send)

    def _before_send(self, event_name: str, **_: Any) -> None:
        operation = event_name.rpartition(".")[2]
        if not operation.startswith(_READING):
            self.check()
