"""The tables of `lmi bench` in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from lmi_deploy.ui.table_text import format_table

if TYPE_CHECKING:
    from lmi_deploy.domain.report_table import ReportTable

_WIDTH: Final = 100


def table_lines(tables: Iterable[ReportTable]) -> Iterator[str]:
    """Title, aligned columns, notes; numbers to the right, so that their sizes can be compared."""
    for place, table in enumerate(tables):
        yield from ([""] if place else [])
        yield table.title
        if table.rows:
            yield from ("  " + line for line in format_table(_aligned(table)))
        for note in table.notes:
            yield from textwrap.wrap(note, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _aligned(table: ReportTable) -> list[tuple[str, ...]]:
    columns = zip(table.columns, *table.rows, strict=True)
    shifted = [
        column if not _is_numeric(column[1:]) else tuple(cell.rjust(max(map(len, column))) for cell in column)
        for column in columns
    ]
    return [*zip(*shifted, strict=True)]


def _is_numeric(cells: tuple[str, ...]) -> bool:
    return all(cell[:1] in "0123456789-+$" or cell in ("UNDECIDED", "no bound") for cell in cells)
