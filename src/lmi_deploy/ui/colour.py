"""Colour for a terminal: it helps the eye, and no word depends on it.

`NO_COLOR` (https://no-color.org) and `TERM=dumb` switch it off; `FORCE_COLOR` switches it on for a pipe.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal, TextIO

Colour = Literal["green", "yellow", "red", "cyan", "bold", "dim"]
_CODES: Final[Mapping[Colour, str]] = {
    "green": "32",
    "yellow": "33",
    "red": "31",
    "cyan": "36",
    "bold": "1",
    "dim": "2",
}


def has_colour(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    environ = os.environ if environ is None else environ
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


class Paint:
    """Words in colour, or as they are if `stream` shows none."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str] | None = None) -> None:
        self._on = has_colour(stream, environ)

    def __call__(self, text: str, colour: Colour) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self._on and text else text
