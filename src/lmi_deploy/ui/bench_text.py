"""The tables of `lmi bench` in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from lmi_deploy.ui.table_text import format_table

if TYPE_CHECKING:
    from lmi_deploy.domain.report_table import ReportTable

_WIDTH: Final = 100
_INDENT: Final = "  "
_BETWEEN: Final = 2
_SENTENCE: Final = 40
"""A column with a longer cell has sentences, which can be broken."""
_LEAST_SENTENCE: Final = 24

Column = tuple[str, ...]


def table_lines(tables: Iterable[ReportTable], width: int = 0) -> Iterator[str]:
    """Title, aligned columns, notes; numbers to the right, so that their sizes can be compared. A table that is wider
    than `width` (0: unlimited) goes on below, with its first column again.
    """
    for place, table in enumerate(tables):
        yield from ([""] if place else [])
        yield table.title
        if table.rows:
            room = max(width - len(_INDENT), _SENTENCE) if width else 0
            for number, block in enumerate(_blocks(_aligned(table), room)):
                yield from ([""] if number else [])
                yield from (_INDENT + line for line in format_table(block))
        for note in table.notes:
            most = min(width, _WIDTH) if width else _WIDTH
            yield from textwrap.wrap(note, most, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _aligned(table: ReportTable) -> list[Column]:
    """Its columns, the head of each first."""
    columns = zip(table.columns, *table.rows, strict=True)
    return [
        column if not _is_numeric(column[1:]) else tuple(cell.rjust(_wide(column)) for cell in column)
        for column in columns
    ]


def _is_numeric(cells: tuple[str, ...]) -> bool:
    """A sentence may begin with a number, too."""
    return max(map(len, cells)) <= _SENTENCE and all(
        cell[:1] in "0123456789-+$" or cell in ("UNDECIDED", "no bound") for cell in cells
    )


def _blocks(columns: Sequence[Column], width: int) -> Iterator[list[tuple[str, ...]]]:
    """Lines of cells, in as many tables as the width needs."""
    first, *others = columns
    block, used = [first], _wide(first)
    for column in others:
        room = width - used - _BETWEEN
        if width and _wide(column) > room and _wide(column) > _SENTENCE:
            if room < _LEAST_SENTENCE and len(block) > 1:
                yield [*zip(*block, strict=True)]
                block, room = [first], width - _wide(first) - _BETWEEN
            yield from _with_sentences(block, column, max(room, _LEAST_SENTENCE))
            block, used = [first], _wide(first)
        elif width and _wide(column) > room and len(block) > 1:
            yield [*zip(*block, strict=True)]
            block, used = [first, column], _wide(first) + _BETWEEN + _wide(column)
        else:
            block, used = [*block, column], used + _BETWEEN + _wide(column)
    if len(block) > 1 or not others:
        yield [*zip(*block, strict=True)]


def _with_sentences(block: list[Column], column: Column, room: int) -> Iterator[list[tuple[str, ...]]]:
    """One table: a cell of the column may take several lines."""
    lines: list[tuple[str, ...]] = []
    for *cells, sentence in zip(*block, column, strict=True):
        parts = textwrap.wrap(sentence, room) or [""]
        lines.append((*cells, parts[0]))
        lines += [(*("" for _ in cells), part) for part in parts[1:]]
    yield lines


def _wide(column: Column) -> int:
    return max(map(len, column))
