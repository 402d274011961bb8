"""One writer a deployment."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Lock(Protocol):
    def hold(self, name: str) -> AbstractContextManager[None]:
        """Hold the deployment for as long as the context lasts; Refused, naming the holder, where it is taken.

        Where the lock can be lost meanwhile (a lease that expires while this process is suspended), whatever would
        change something after that raises LockLost instead, and so does the end of the context.
        """

    def holder(self, name: str) -> str:
        """Who holds it now, in words; empty when nobody does."""

    def unlock(self, name: str, lock_id: str, *, force: bool = False) -> str:
        """Take away the lock of this id, whose holder is dead, and say who held it; Refused where the id is another,
        and, without `force`, where the lock is still being renewed."""

    def sweep(self, name: str) -> None:
        """Take away what a holder left that is gone; a lock that somebody holds stays."""
