"""Plots as inline SVG. Colours are variables of the page's style sheet, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from lmi_deploy.bench.table_cells import number

WIDTH: Final = 720
HEIGHT: Final = 340
_LEFT: Final = 88
_RIGHT: Final = 30
_TOP: Final = 12
_BOTTOM: Final = 46
COLOURS: Final = 8
_TICKS: Final = 6
_FEWEST_TICKS: Final = 3
_ROOM: Final = 60
"""The width of a cell that has room for a number."""
_DARK: Final = 0.55
"""The share from which a cell is too dark for the text of the page."""


def tick_label(value: float) -> str:
    """`0.5`, `20`, `1,000`."""
    text = f"{value:,.4f}" if abs(value) < 1000 else f"{value:,.0f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    title: str
    low: float
    high: float
    is_log: bool = False
    labels: Callable[[float], str] = tick_label

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        if self.is_log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if not self.is_log:
            return _round_steps(self.low, self.high)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        multiples = (1, 2, 5) if last - first <= 3 else (1,)
        found = [m * 10.0**e for e in range(first, last + 1) for m in multiples]
        inside = [tick for tick in found if self.low <= tick * 1.0001 and tick <= self.high * 1.0001]
        if len(inside) >= _FEWEST_TICKS:
            return inside
        # Less than a decade: even steps say where the values are.
        steps = [tick for tick in _round_steps(self.low, self.high) if tick > 0]
        return steps if len(steps) >= 2 else [self.low, self.high]


def _round_steps(low: float, high: float) -> list[float]:
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [(first + i) * step for i in range(int(high / step + 1e-9) - first + 1)]


def axis(title: str, values: Iterable[float], *, is_log: bool = False) -> Axis:
    """With room around the values; linear axes begin at 0."""
    given = [value for value in values if math.isfinite(value) and (value > 0 or not is_log)]
    low, high = (min(given), max(given)) if given else (1.0, 1.0)
    if is_log:
        low, high = low / 1.15, high * 1.15
        return Axis(title=title, low=low, high=high if high > low else low * 10, is_log=True)
    return Axis(title=title, low=0.0, high=high * 1.05 if high > 0 else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """`name` is shown at its points; `dash` is the pattern of the line, empty: solid."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    dash: str = ""
    has_line: bool = True
    has_marks: bool = True


def line_plot(
    label: str, x: Axis, y: Axis, series: Sequence[Series], *, rules: Mapping[str, float] | None = None
) -> str:
    """`rules` are vertical lines with their names: limits."""
    parts = [*_frame(x, y)]
    for name, value in (rules or {}).items():
        at = _x(x, min(max(value, x.low), x.high))
        parts.append(
            f'<line class="rule" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
            f'<text class="rule" x="{at - 4:.1f}" y="{_TOP + 12}" text-anchor="end">{escape(name)}</text>'
        )
    for one in series:
        parts += _series(x, y, one)
    return _svg(label, parts)


def _svg(label: str, parts: Iterable[str], height: int = HEIGHT) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return f"{head}{''.join(parts)}</svg>"


def _x(x: Axis, value: float) -> float:
    return _LEFT + x.place(value) * (WIDTH - _LEFT - _RIGHT)


def _y(y: Axis, value: float) -> float:
    return HEIGHT - _BOTTOM - y.place(value) * (HEIGHT - _TOP - _BOTTOM)


def _frame(x: Axis, y: Axis) -> Iterator[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    for tick in y.ticks():
        at = _y(y, tick)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{escape(y.labels(tick))}</text>'
    for tick in x.ticks():
        at = _x(x, tick)
        yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        yield f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(x.labels(tick))}</text>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x.title)}</text>'
    middle = (_TOP + bottom) / 2
    yield (
        f'<text transform="translate(20 {middle}) rotate(-90)" text-anchor="middle">{escape(y.title)}</text>'
    )


def _series(x: Axis, y: Axis, one: Series) -> Iterator[str]:
    shown = [
        (a, b)
        for a, b in one.points
        if math.isfinite(a) and math.isfinite(b) and (b > 0 or not y.is_log) and (a > 0 or not x.is_log)
    ]
    colour = f"s{one.colour % COLOURS}"
    if one.has_line and len(shown) > 1:
        path = " ".join(f"{_x(x, a):.1f},{_y(y, b):.1f}" for a, b in shown)
        dash = f' stroke-dasharray="{one.dash}"' if one.dash else ""
        yield f'<polyline class="{colour}"{dash} points="{path}"><title>{escape(one.name)}</title></polyline>'
    if one.has_marks:
        for a, b in shown:
            text = escape(f"{one.name}: {x.labels(a)}, {number(b)}")
            mark = f'cx="{_x(x, a):.1f}" cy="{_y(y, b):.1f}" r="3.5"'
            yield f'<circle class="{colour}" {mark}><title>{text}</title></circle>'


def heat_plot(
    label: str,
    titles: tuple[str, str],
    columns: Sequence[str],
    rows: Sequence[str],
    cells: Mapping[tuple[int, int], tuple[float, str, str]],
) -> str:
    """`cells` by column and row: the share of the darkest from 0 to 1, the text of the cell's tooltip, and what is
    written in it. The first row is at the bottom. Not every column or row has room for its name.
    """
    wide = (WIDTH - _LEFT - _RIGHT) / max(len(columns), 1)
    high = (HEIGHT - _TOP - _BOTTOM) / max(len(rows), 1)
    bottom = HEIGHT - _BOTTOM
    parts = [
        f'<rect class="heat" x="{_LEFT + column * wide:.1f}" y="{bottom - (row + 1) * high:.1f}" '
        f'width="{wide + 0.3:.1f}" height="{high + 0.3:.1f}" fill-opacity="{0.06 + 0.94 * share:.2f}">'
        f"<title>{escape(text)}</title></rect>"
        for (column, row), (share, text, _) in cells.items()
        if share > 0
    ]
    parts += [
        f'<text class="{"inner dark" if share > _DARK else "inner"}" x="{_LEFT + (column + 0.5) * wide:.1f}" '
        f'y="{bottom - (row + 0.5) * high + 5:.1f}" text-anchor="middle">{escape(value)}</text>'
        for (column, row), (share, _, value) in cells.items()
        if value and wide >= _ROOM
    ]
    every = max(1, math.ceil(len(columns) / 10))
    parts += [
        f'<text x="{_LEFT + (i + 0.5) * wide:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(name)}</text>'
        for i, name in enumerate(columns)
        if i % every == 0
    ]
    every = max(1, math.ceil(len(rows) / 10))
    parts += [
        f'<text x="{_LEFT - 8}" y="{bottom - (i + 0.5) * high + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        for i, name in enumerate(rows)
        if i % every == 0
    ]
    middle = (_TOP + bottom) / 2
    parts += [
        f'<text x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(titles[0])}</text>',
        f'<text transform="translate(20 {middle}) rotate(-90)" text-anchor="middle">{escape(titles[1])}</text>',
    ]
    return _svg(label, parts)
