"""What each command prints with `--json`: its rows and its result as types, and the JSON Schema of every line."""

from __future__ import annotations

from typing import Final

VERSION: Final = "1.0"
"""MAJOR.MINOR. A line that loses a field, or whose field gets another type or meaning, needs a new major version; a new
field, row, event or command a new minor one (docs/reference/json-events.md).
"""
