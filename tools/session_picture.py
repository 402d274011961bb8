"""An asciinema recording as an SVG that plays it: no script, nothing from elsewhere.

Where nothing new is printed for long, the picture is faster than the recording: a terminal's moving line is dull. A
program that does not play animations shows the end.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from tools.terminal_screen import Run, Screen, Style

ROWS: Final = 30
"""Of the picture; the rows before them have scrolled away."""
_CELL: Final = 8.4
_LINE: Final = 18
_MARGIN: Final = 14
_QUIET: Final = 3.0
"""Seconds: the longest time without a new line."""
_STEP: Final = 0.2
"""Seconds between two pictures of a moving line."""
_END: Final = 6.0
"""Seconds that the end stays."""
_COLOURS: Final = {
    "": "#d4d4d4",
    "black": "#666666",
    "red": "#f14c4c",
    "green": "#23d18b",
    "yellow": "#e5e510",
    "blue": "#5aa2f5",
    "magenta": "#d670d6",
    "cyan": "#29b8db",
    "white": "#e5e5e5",
}


@dataclass(frozen=True, slots=True)
class _Frame:
    """The screen from `at` on; `rows` as they are shown."""

    at: float
    rows: tuple[tuple[Run, ...], ...]


@dataclass(frozen=True, slots=True)
class _Shown:
    """One row as it is shown from `begin` to `end`; `end` None: until the picture starts again."""

    row: int
    runs: tuple[Run, ...]
    begin: float
    end: float | None


def session_svg(cast: str, *, title: str, description: str) -> str:
    """The same for the same recording."""
    head, *events = map(json.loads, cast.splitlines())
    frames = list(_frames(_at_reading_speed(_screens(events, head["width"]))))
    shown = list(_shown(frames))
    total = frames[-1].at + _END
    width = round(head["width"] * _CELL + 2 * _MARGIN)
    height = ROWS * _LINE + 2 * _MARGIN
    body = "\n".join(_row(one) for one in shown)
    scrolls = "\n".join(_scrolls(frames))
    last = _offset(frames[-1])
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
role="img" aria-labelledby="session-title session-description">
<title id="session-title">{escape(title)}</title>
<desc id="session-description">{escape(description)}</desc>
<rect width="{width}" height="{height}" rx="8" fill="#1e1e1e">
<animate id="s" attributeName="x" from="0" to="0" begin="0s;s.end" dur="{total:.2f}s"/>
</rect>
<svg x="{_MARGIN}" y="{_MARGIN}" width="{width - 2 * _MARGIN}" height="{ROWS * _LINE}" overflow="hidden">
<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" \
transform="translate(0 {-last * _LINE})">
{scrolls}
{body}
</g>
</svg>
</svg>
"""


def _screens(events: Sequence[Any], width: int) -> Iterator[_Frame]:
    screen = Screen(width)
    for at, kind, data in events:
        if kind == "o":
            screen.feed(data)
            rows = tuple(screen.runs(row) for row in range(len(screen.rows)))
            yield _Frame(at, rows)


def _at_reading_speed(frames: Iterator[_Frame]) -> Iterator[_Frame]:
    """The same frames, with the times of the picture."""
    now = before = 0.0
    quiet: list[_Frame] = []
    height = 0
    for frame in frames:
        quiet.append(frame)
        if len(frame.rows) > height or _is_typed(frame):
            span = frame.at - before
            factor = min(1.0, _QUIET / span) if span else 1.0
            yield from (_Frame(now + (each.at - before) * factor, each.rows) for each in quiet)
            now, before, height, quiet = now + span * factor, frame.at, len(frame.rows), []
    yield from (_Frame(now, each.rows) for each in quiet[-1:])


def _is_typed(frame: _Frame) -> bool:
    """Whether the last line is that of a prompt."""
    return bool(frame.rows[-1]) and frame.rows[-1][0][1].startswith("$ ")


def _frames(frames: Iterator[_Frame]) -> Iterator[_Frame]:
    """Those that a reader can tell apart: not two within a step, unless there is a new line."""
    kept: _Frame | None = None
    for frame in frames:
        if kept is not None and (frame.at - kept.at >= _STEP or len(frame.rows) > len(kept.rows)):
            yield kept
        kept = frame
    if kept is not None:
        yield kept


def _shown(frames: Sequence[_Frame]) -> Iterator[_Shown]:
    current: dict[int, tuple[tuple[Run, ...], float]] = {}
    for frame in frames:
        for row in range(max(len(frame.rows), len(current))):
            runs = frame.rows[row] if row < len(frame.rows) else ()
            before, since = current.get(row, ((), 0.0))
            if runs != before:
                if before:
                    yield _Shown(row, before, since, frame.at)
                current[row] = (runs, frame.at)
    yield from (_Shown(row, runs, since, None) for row, (runs, since) in current.items() if runs)


def _row(one: _Shown) -> str:
    texts = "".join(_text(run) for run in one.runs)
    y = one.row * _LINE + _LINE - 5
    if one.end is None:
        hidden = f'<set attributeName="visibility" to="hidden" begin="s.begin" dur="{one.begin:.2f}s"/>'
        return f'<text y="{y}">{hidden if one.begin >= 0.01 else ""}{texts}</text>'
    begin, dur = one.begin, max(0.01, one.end - one.begin)
    seen = f'<set attributeName="visibility" to="visible" begin="s.begin+{begin:.2f}s" dur="{dur:.2f}s"/>'
    return f'<text y="{y}" visibility="hidden">{seen}{texts}</text>'


def _text(run: Run) -> str:
    column, text, style = run
    column += len(text) - len(text.lstrip())
    text = text.strip().replace(
        " ", "\N{NO-BREAK SPACE}"
    )  # browsers differ in what they do with several spaces
    return (
        f'<tspan x="{column * _CELL:.1f}" textLength="{len(text) * _CELL:.1f}"{_attributes(style)}>'
        f"{escape(text)}</tspan>"
    )


def _attributes(style: Style) -> str:
    colour = _COLOURS.get(style.colour.removeprefix("bright "), style.colour)
    bold = ' font-weight="bold"' if style.bold else ""
    return f' fill="{colour}"{bold}' + (' opacity="0.65"' if style.dim else "")


def _scrolls(frames: Sequence[_Frame]) -> Iterator[str]:
    """Where the picture is in the rows at each time; without animation, at the end."""
    times = [(0.0, 0)]
    for frame in frames:
        if (offset := _offset(frame)) != times[-1][1]:
            times.append((frame.at, offset))
    for (begin, offset), (end, _) in itertools.pairwise(times):
        yield (
            f'<animateTransform attributeName="transform" type="translate" from="0 {-offset * _LINE}" '
            f'to="0 {-offset * _LINE}" begin="s.begin+{begin:.2f}s" dur="{max(0.01, end - begin):.2f}s"/>'
        )


def _offset(frame: _Frame) -> int:
    return max(0, len(frame.rows) - ROWS)
