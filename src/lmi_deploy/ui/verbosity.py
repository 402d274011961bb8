"""How much a command prints: chosen once by its options, read by the views and by the error boundary."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Literal

Verbosity = Literal["quiet", "normal", "verbose", "debug"]
VERBOSITY: Final[ContextVar[Verbosity]] = ContextVar("verbosity", default="normal")
