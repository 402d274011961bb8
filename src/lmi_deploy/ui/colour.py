"""Colour for a terminal: it helps the eye, and no word depends on it.

`NO_COLOR` (https://no-color.org) and `TERM=dumb` switch it off; `FORCE_COLOR` switches it on for a pipe.
"""

from __future__ import annotations

import os
import re
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


def moves_cursor(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    environ = os.environ if environ is None else environ
    return stream.isatty() and environ.get("TERM") != "dumb"


_STANDINGS: Final[Mapping[str, Colour]] = {
    "in-step": "green",
    "starting": "cyan",
    "drifted": "yellow",
    "expired": "yellow",
    "failed": "red",
    "absent": "dim",
}
"""The words of `lmi status`."""


class Paint:
    """Words in colour, or as they are if `stream` shows none."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str] | None = None) -> None:
        self._on = has_colour(stream, environ)

    def standing(self, text: str) -> str:
        """With the first word for the state of a deployment in its colour."""
        if not self._on:
            return text
        return re.sub(rf"(?<![\w-])({'|'.join(_STANDINGS)})(?![\w-])", self._painted, text, count=1)

    def _painted(self, found: re.Match[str]) -> str:
        return self(found[0], _STANDINGS[found[0]])

    def __call__(self, text: str, colour: Colour) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self._on and text else text
