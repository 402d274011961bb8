"""Binary units of bytes."""

from __future__ import annotations

from typing import Final

MIB: Final = 2**20
GIB: Final = 2**30
