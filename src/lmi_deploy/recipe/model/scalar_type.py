"""What reads and describes one written value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]
NUMERIC_TEXT: Schema = {"type": ["string", "number", "boolean"]}
"""Text that an editor may read as a number; here it stays text."""


class InvalidValue(Exception):
    """A value that a ScalarType does not accept."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


@dataclass(frozen=True, slots=True)
class ScalarType:
    """Reads one scalar. `schema` is a function so that no table is loaded before it is needed."""

    label: str
    read: Callable[[str], Any]
    schema: Callable[[], Schema] = field(default=lambda: {"type": "string"})
