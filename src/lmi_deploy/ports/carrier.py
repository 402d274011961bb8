"""A program that is not ours and sends files of this machine into a bucket (`weights.engine`)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One file and the key that it gets; in parts of `part` bytes where it is larger than that."""

    path: Path
    key: str
    size: int
    part: int


class Carrier(Protocol):
    @property
    def name(self) -> str:
        """Which program, of which version."""

    def carry(self, loads: Sequence[Load], *, bucket: str) -> Generator[str, None, None]:
        """Send them, and say the key of each that is there; empty text while nothing ends.

        It does not state who must own the bucket: whoever calls has made sure. Ends with the program: AccessError or
        TransferFailed where it sent less than all; closed, it kills it. What arrived is to be verified.
        """
