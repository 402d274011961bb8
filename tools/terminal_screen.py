"""What a terminal shows of a program's output, as far as lmi uses one: text, colours, the cursor, erased lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

_SEQUENCE: Final = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[^\[\]]")
_EIGHT: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


@dataclass(frozen=True, slots=True)
class Style:
    """`colour`: one of the eight of a terminal, `bright` with it, or #rrggbb; empty: that of the terminal."""

    colour: str = ""
    bold: bool = False
    dim: bool = False


PLAIN: Final = Style()
Run = tuple[int, str, Style]
"""Text of one style, and the column where it begins."""


@dataclass(slots=True)
class Screen:
    """As high as what was printed: nothing scrolls away."""

    width: int
    row: int = 0
    column: int = 0
    style: Style = PLAIN
    rows: list[list[tuple[str, Style]]] = field(default_factory=lambda: [[]])

    def feed(self, text: str) -> None:
        at = 0
        for found in _SEQUENCE.finditer(text):
            self._print(text[at : found.start()])
            if found[2]:
                self._control(found[1], found[2])
            at = found.end()
        self._print(text[at:])

    def runs(self, row: int) -> tuple[Run, ...]:
        """The row, without the spaces at its end."""
        cells = self.rows[row]
        while cells and cells[-1][0] == " ":
            cells = cells[:-1]
        return tuple(_runs(cells))

    def _print(self, text: str) -> None:
        for letter in text:
            if letter == "\r":
                self.column = 0
            elif letter == "\n":
                self._go_to(self.row + 1)
            elif letter == "\b":
                self.column = max(0, self.column - 1)
            elif letter >= " ":
                self._put(letter)

    def _put(self, letter: str) -> None:
        if self.column >= self.width:
            self.column = 0
            self._go_to(self.row + 1)
        cells = self.rows[self.row]
        cells.extend([(" ", PLAIN)] * (self.column + 1 - len(cells)))
        cells[self.column] = (letter, self.style)
        self.column += 1

    def _go_to(self, row: int) -> None:
        self.row = max(0, row)
        while len(self.rows) <= self.row:
            self.rows.append([])

    def _control(self, parameters: str, letter: str) -> None:
        numbers = [int(part or 0) for part in parameters.split(";")] if not parameters.startswith("?") else []
        first = numbers[0] if numbers else 0
        match letter:
            case "m":
                self.style = _styled(self.style, numbers)
            case "A":
                self._go_to(self.row - max(1, first))
            case "B":
                self._go_to(self.row + max(1, first))
            case "C":
                self.column += max(1, first)
            case "D":
                self.column = max(0, self.column - max(1, first))
            case "G":
                self.column = max(1, first) - 1
            case "K":
                cells = self.rows[self.row]
                self.rows[self.row] = [] if first == 2 else cells[: self.column] if first == 0 else cells
            case "J" if first == 0:
                del self.rows[self.row + 1 :]
                self.rows[self.row] = self.rows[self.row][: self.column]
            case _:
                pass


def _runs(cells: list[tuple[str, Style]]) -> Iterator[Run]:
    column = 0
    for style, group in groupby(cells, key=lambda cell: cell[1]):
        text = "".join(letter for letter, _ in group)
        if text.strip():
            yield column, text, style
        column += len(text)


def _styled(style: Style, numbers: list[int]) -> Style:
    """After a sequence of SGR."""
    rest = iter(numbers or [0])
    for number in rest:
        if number == 0:
            style = PLAIN
        elif number == 1:
            style = replace(style, bold=True)
        elif number == 2:
            style = replace(style, dim=True)
        elif number == 22:
            style = replace(style, bold=False, dim=False)
        elif number in range(30, 38):
            style = replace(style, colour=_EIGHT[number - 30])
        elif number in range(90, 98):
            style = replace(style, colour=f"bright {_EIGHT[number - 90]}")
        elif number == 39:
            style = replace(style, colour="")
        elif number in (38, 48):
            colour = _extended(rest)
            style = replace(style, colour=colour) if number == 38 else style
    return style


def _extended(rest: Iterator[int]) -> str:
    """The rest of `38;2;R;G;B` or `38;5;N`."""
    if next(rest, 0) == 2:
        return "#" + "".join(f"{next(rest, 0):02x}" for _ in range(3))
    number = next(rest, 0)
    if number < 16:
        return "bright " * (number >= 8) + _EIGHT[number % 8]
    if number >= 232:
        return "#" + f"{8 + (number - 232) * 10:02x}" * 3
    levels = (0, 95, 135, 175, 215, 255)
    cube = number - 16
    return "#" + "".join(f"{levels[cube // each % 6]:02x}" for each in (36, 6, 1))
