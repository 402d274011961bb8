"""One writer a deployment."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Lock(Protocol):
    def hold(self, name: str) -> AbstractContextManager[None]:
        """Hold the deployment's lock within the context; Refused, naming the holder, if it is taken.

        If the lock can be lost in the meantime (a lease that expires while this process is suspended), every later
        change raises LockLost instead, and so does the end of the context.
        """

    def holder(self, name: str) -> str:
        """The current holder, in words; empty if it is free."""

    def unlock(self, name: str, lock_id: str, *, force: bool = False) -> str:
        """Remove the lock of this id, whose holder is dead, and return who held it; Refused if the id differs, and,
        without `force`, if the lock is still being renewed.
        """

    def sweep(self, name: str) -> None:
        """Remove what a dead holder left; a held lock stays."""
