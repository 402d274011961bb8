"""One mistake in a recipe, with its place."""

from __future__ import annotations

from dataclasses import dataclass


def in_one_line(text: str) -> str:
    """A key of a recipe may have line breaks: the next line of a log could be a command for a CI system."""
    return text if text.isprintable() else ascii(text)[1:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`origin` is the file as the user named it, or `--set:N`; `line` is 0 where only a column is meaningful."""

    origin: str
    line: int
    column: int
    key: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.origin}:{self.line}:{self.column}" if self.line else f"{self.origin}:{self.column}"
        key = f"{in_one_line(self.key)}: " if self.key else ""
        hint = f", {self.hint}" if self.hint else ""
        return f"{place}: {key}{self.what}{hint}"
