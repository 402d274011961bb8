"""One writer a deployment."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Lock(Protocol):
    def hold(self, name: str) -> AbstractContextManager[None]:
        """Hold the deployment for as long as the context lasts; Refused, naming the holder, where it is taken."""

    def holder(self, name: str) -> str:
        """Who holds it now, in words; empty when nobody does."""
