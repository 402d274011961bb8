"""Tables as text: aligned columns, made narrower to fit a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

NOTHING: Final = "-"
"""An empty cell."""
_BETWEEN: Final = 2
_LEAST: Final = 12
"""Minimum characters of a cell, however narrow the terminal."""


def format_table(
    lines: Sequence[Sequence[str]], *, spare: Sequence[str] = (), width: int = 0
) -> Iterator[str]:
    """Aligned lines, the heads first. `spare` names columns that may be left out if `width` (0: unlimited, for a
    program) is too small, least needed first, after those that are empty in every line; without `spare` nothing is left
    out or cut: users copy names and paths.
    """
    kept = list(zip(*lines, strict=True))
    if width and spare:
        filled = [column for column in kept if {*column[1:]} != {NOTHING}]
        kept = _shortened(_fewer(filled, spare, width), width)
    widths = [max(map(len, column)) for column in kept]
    for line in zip(*kept, strict=True):
        text = (" " * _BETWEEN).join(cell.ljust(wide) for cell, wide in zip(line, widths, strict=True))
        yield text.rstrip()


def table_width(lines: Sequence[Sequence[str]]) -> int:
    """Of the table with all its columns; the heads first."""
    return _wide(list(zip(*lines, strict=True)))


def _fewer(columns: list[tuple[str, ...]], spare: Sequence[str], width: int) -> list[tuple[str, ...]]:
    """Without the spare ones, one at a time."""
    for name in spare:
        if _wide(columns) <= width:
            break
        columns = [column for column in columns if column[0] != name]
    return columns


def _shortened(columns: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """The widest column gives way, never the first, which names the line."""
    over = _wide(columns) - width
    if over <= 0 or len(columns) < 2:
        return columns
    widest = max(columns[1:], key=lambda column: max(map(len, column)))
    most = max(_LEAST, max(map(len, widest)) - over)
    cut = tuple(cell if len(cell) <= most else cell[: most - 1] + "…" for cell in widest)
    if cut == widest:
        return columns
    return _shortened([cut if column is widest else column for column in columns], width)


def _wide(columns: Sequence[tuple[str, ...]]) -> int:
    return sum(max(map(len, column)) + _BETWEEN for column in columns) - _BETWEEN
