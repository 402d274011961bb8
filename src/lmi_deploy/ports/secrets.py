"""Secrets that a job reads with its own role."""

from __future__ import annotations

from typing import Protocol


class Secrets(Protocol):
    def exists(self, name: str) -> bool:
        """Whether there is a secret of this name or ARN; its value is never read here."""
