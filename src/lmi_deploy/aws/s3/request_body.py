"""Memory as a body for botocore: without a copy, and re-readable from the start."""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.byte_units import MIB

_STEP: Final = MIB


class RequestBody:
    """http.client reads in steps of 16 KiB; this returns up to 1 MiB whatever size it requests."""

    def __init__(self, content: memoryview) -> None:
        self._content = content.cast("B")
        self._at = 0

    def __len__(self) -> int:
        return len(self._content)

    def read(self, size: int = -1) -> memoryview:
        """At least `size` bytes if there are as many left; all remaining ones for -1."""
        step = len(self._content) if size < 0 else max(size, _STEP)
        chunk = self._content[self._at : self._at + step]
        self._at += len(chunk)
        return chunk

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, len(self._content))[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at
