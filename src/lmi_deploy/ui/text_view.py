"""For people: the story on stderr, in colour and moving only on a terminal; the result alone on stdout."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from lmi_deploy.domain.events import Answered, Event, Finished, Line, Notice, Progress, Started
from lmi_deploy.domain.number_text import seconds_text, size_text
from lmi_deploy.errors import LmiError
from lmi_deploy.errors.url_credentials import mask_urls
from lmi_deploy.ui.plain_text import plain
from lmi_deploy.ui.view import Fields

if TYPE_CHECKING:  # most commands show no plan, and its classes take a fifth of the time of `lmi validate`
    from lmi_deploy.domain.plan import Estimate, Plan
    from lmi_deploy.ui.progress_line import LiveLine

_IDLE_SECONDS = 5.0
_LATELY = 60
"""Lines that are not repeated when a failure contains them."""


class HumanView:
    """A `View` for people. `live` updates a line in place; without it every line is written once."""

    def __init__(self, out: TextIO, story: TextIO, *, live: bool) -> None:
        self._out = out
        self._story = story
        self._live: LiveLine | None = None
        self._moving = live
        self._shown_at = 0.0
        self._pending = ""
        self._lately: deque[str] = deque(maxlen=_LATELY)

    def show(self, event: Event) -> None:
        match event:
            case Started(title=text):
                self._begin(text)
            case Progress():
                self._progress(event)
            case Line(text=text):
                self._lately.append(text)
                self._line(mask_urls(plain(text)))
            case Finished():
                self._finish(event)
            case Notice(text=text):
                self._write_line(text)
            case Answered():
                self._answered(event)

    def plan(self, plan: Plan, estimate: Estimate) -> None:
        from lmi_deploy.ui.plan_text import plan_lines

        for line in plan_lines(plan, estimate):
            self._write_line(line)

    def note(self, text: str) -> None:
        self._write_line(text)

    def rows(self, rows: Sequence[Fields], *, spare: Sequence[str] = ()) -> None:
        if not rows:
            return
        from shutil import get_terminal_size

        from lmi_deploy.ui.table import table

        heads = [name for name in rows[0] if not name.startswith("_")]
        cells = [[_cell(name, row[name]) for name in heads] for row in rows]
        # A pipe has no width: lines are not cut.
        width = get_terminal_size().columns if self._out.isatty() else 0
        for line in table([heads, *cells], spare=spare, width=width):
            self._out.write(line + "\n")

    def words(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._out.write(line + "\n")
        self._out.flush()

    def chunk(self, text: str) -> None:
        self._out.write(plain(text) if self._out.isatty() else text)
        self._out.flush()

    def end_of_response(self) -> None:
        self._out.write("\n")
        self._out.flush()

    def result(self, fields: Fields, text: str = "") -> None:
        self.close()
        if text:
            self._out.write(text if text.endswith("\n") else text + "\n")

    def untold(self, lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(line for line in lines if line not in self._lately)

    def fail(self, error: LmiError) -> None:
        self.close()
        for line in error.details:
            self._story.write(f"  {plain(line)}\n" if not hasattr(error, "problems") else f"{plain(line)}\n")
        self._story.write(f"error: {plain(error.message)}\n")
        if error.hint:
            self._story.write(f"  next: {plain(error.hint)}\n")

    def close(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None

    def _begin(self, text: str) -> None:
        if self._moving:
            self._live_line().begin(text)
        else:
            self._pending = text  # shown once it takes a while

    def _progress(self, event: Progress) -> None:
        if self._moving:
            self._live_line().progress(event)
            return
        self._write_pending()
        step = event.done - self._shown_at
        if event.unit == "seconds" and 0 <= step < _IDLE_SECONDS:
            return
        if event.unit == "bytes" and event.total and 0 <= step < event.total / 10:
            return
        self._shown_at = event.done
        self._write_line(f"    {progress_text(event)}")

    def _line(self, text: str) -> None:
        if self._moving:
            self._live_line().print_above(text)
        else:
            self._write_pending()
            self._write_line(f"    {text}")

    def _write_pending(self) -> None:
        if self._pending:
            self._write_line(f"... {self._pending}")
            self._pending = ""

    def _finish(self, event: Finished) -> None:
        self.close()
        outcome = f", {event.outcome}" if event.outcome else ""
        self._shown_at, self._pending = 0.0, ""
        self._write_line(f"ok  {event.title} ({seconds_text(event.seconds)}{outcome})")

    def _answered(self, event: Answered) -> None:
        if self._live is not None:
            self.close()
        self._write_line(f"    asked: {_in_a_line(event.prompt)}")
        self._write_line(f"    answered: {_in_a_line(event.answer)}")

    def _write_line(self, text: str) -> None:
        text = mask_urls(text)
        if self._live is not None:
            self._live.above(text)
        else:
            self._story.write(text + "\n")
            self._story.flush()

    def _live_line(self) -> LiveLine:
        if self._live is None:
            from lmi_deploy.ui.progress_line import LiveLine

            self._live = LiveLine(self._story)
        return self._live


def progress_text(event: Progress) -> str:
    """`done` of `total` in the event's unit, with its note."""
    if event.unit == "bytes":
        share = f" of {size_text(event.total)}" if event.total else ""
        text = f"{size_text(event.done)}{share}"
    elif event.unit == "seconds":
        text = seconds_text(event.done)
    else:
        share = f" of {event.total:.0f}" if event.total else ""
        text = f"{event.done:.0f}{share} {event.unit}"
    return f"{text}  {plain(event.note)}" if event.note else text


def human_view(*, moving: bool | None = None) -> HumanView:
    """A view on this process's own streams; it is animated only if stderr is a terminal that supports it."""
    live = sys.stderr.isatty() if moving is None else moving
    return HumanView(sys.stdout, sys.stderr, live=live)


def _in_a_line(text: str) -> str:
    return " ".join(plain(text).split())[:200]


def _cell(name: str, value: object) -> str:
    if name in ("size", "memory") and isinstance(value, (int, float)):
        return size_text(value)
    if name == "costs":  # `lmi status` shows its parts, which would make the table too wide to read
        value = str(value).partition(" (")[0]
    if isinstance(value, bool):
        value = "yes" if value else ""
    return "-" if value in (None, "") else str(value)
