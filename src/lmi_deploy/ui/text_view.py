"""For people: the story on stderr, in colour and moving only on a terminal; the result alone on stdout."""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO, cast

from lmi_deploy.domain.events import Answered, Event, Finished, Line, Notice, Progress, Started
from lmi_deploy.domain.number_text import relative_time, seconds_text, size_text
from lmi_deploy.errors import LmiError
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.ui.colour import Paint, moves_cursor
from lmi_deploy.ui.plain_text import WithoutCommands, plain
from lmi_deploy.ui.table_text import NOTHING, format_table
from lmi_deploy.ui.view import Fields

if TYPE_CHECKING:  # most commands show no plan, and its classes take a fifth of the time of `lmi validate`
    from lmi_deploy.domain.plan import Estimate, Plan
    from lmi_deploy.ui.progress_line import LiveLine
    from lmi_deploy.ui.verbosity import Verbosity

_IDLE_SECONDS = 5.0
_LATELY = 2_000
"""Lines that are not repeated when a failure contains them."""
_MOST_ROWS: Final = 60
"""In a terminal: a longer list scrolls its beginning away."""
_TIMES: Final = frozenset({"created", "since", "expires", "start", "end"})
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_NOT_PROSE: Final = re.compile(r"^[+@-]|\S {2,}\S")


@dataclass(slots=True)
class _Step:
    """The running step of one deployment: what of it was printed. `pending` is its title until it is printed."""

    deployment: str
    """Its name, if a command works on several; else empty."""
    shown_at: float = 0.0
    pending: str = ""

    @property
    def of(self) -> str:
        """What its lines begin with."""
        return f"{self.deployment}: " if self.deployment else ""


class HumanView:
    """A `View` for people. `live` updates a line in place; without it every line is written once. `quiet` writes no
    story, `verbose` the beginning of every step.
    """

    def __init__(
        self, out: TextIO, story: TextIO, *, live: bool, quiet: bool = False, verbose: bool = False
    ) -> None:
        self._out = out
        self._story = story
        self._live: LiveLine | None = None
        self._moving = live
        self._quiet = quiet
        self._verbose = verbose
        self._steps: dict[str, _Step] = {}
        self._lately: deque[str] = deque(maxlen=_LATELY)
        self._paint = Paint(story)

    def show(self, event: Event, deployment: str = "") -> None:
        if not self._quiet:
            self._show(event, deployment)

    def _show(self, event: Event, deployment: str) -> None:
        step = self._steps.setdefault(deployment, _Step(deployment))
        of = step.of
        match event:
            case Started(title=text) if self._moving:
                self._live_line().begin(f"{of}{text}", deployment)
            case Started(title=text):
                step.pending = f"{of}{text}"  # shown once it takes a while
                if self._verbose:
                    self._write_pending(step)
            case Progress():
                self._progress(event, step)
            case Line(text=text):
                self._line(text, step)
            case Finished(title=text, seconds=seconds):
                self.end(deployment)
                outcome = f", {event.outcome}" if event.outcome else ""
                step.shown_at, step.pending = 0.0, ""
                ok = self._paint("ok", "green")
                self._write_line(f"{ok}  {of}{text} ({seconds_text(seconds)}{outcome})")
            case Notice(text=text):
                self._write_line(f"{of}{text}")
            case Answered(prompt=prompt, answer=answer, adapter=adapter):
                self.end(deployment)
                if not adapter:
                    self._write_line(f"    {of}asked: {_in_a_line(prompt)}")
                by = f" ({adapter})" if adapter else ""
                self._write_line(f"    {of}answered{by}: {_in_a_line(answer)}")

    def end(self, deployment: str) -> None:
        """The moving line of its step is gone; those of other deployments go on."""
        if self._live is not None and self._live.end(deployment):
            self.close()

    def plan(self, plan: Plan, estimate: Estimate) -> None:
        from lmi_deploy.ui.plan_text import plan_lines

        for line in plan_lines(plan, estimate, self._paint):
            self._write_line(line)

    def note(self, text: str, *, copied: bool = False) -> None:
        if self._quiet:
            return
        if copied and self._live is None:
            self._story.write(mask_urls(text) + "\n")
        else:
            self._write_line(text)

    def rows(self, rows: Sequence[Fields], *, spare: Sequence[str] = ()) -> None:
        if not rows:
            return
        shown = rows[:_MOST_ROWS] if self._out.isatty() else rows
        heads = [name for name in rows[0] if not name.startswith("_")]
        cells = [[_cell(name, row[name]) for name in heads] for row in shown]
        paint = Paint(self._out)
        head, *lines = format_table([heads, *cells], spare=spare, width=self.width)
        for line in (head, *(paint.standing(line) if "standing" in heads else line for line in lines)):
            self._out.write(line + "\n")
        if len(shown) < len(rows):
            self.note(f"... and {len(rows) - len(shown)} more; `| cat` or --json shows all of them")

    @property
    def width(self) -> int:
        """A pipe has no width: lines are not cut."""
        from shutil import get_terminal_size

        return get_terminal_size().columns if self._out.isatty() else 0

    def words(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._out.write((line if _NOT_PROSE.search(line) else _fitted(line, self._out)) + "\n")
        self._out.flush()

    def refresh(self, fields: Fields, lines: Sequence[str], line: str) -> None:
        if moves_cursor(self._out):  # home, each line to its end, the rest of the screen: it does not flicker
            self._out.write("\x1b[H" + "".join(f"{one}\x1b[K\n" for one in lines) + "\x1b[J")
        else:
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

    def unshown_lines(self, lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(line for line in lines if line not in self._lately)

    def fail(self, error: LmiError) -> None:
        self.close()
        for line in error.details:
            text = plain(line) if hasattr(error, "problems") else f"  {plain(line)}"
            self._story.write(_fitted(text, self._story) + "\n")
        paint = self._paint
        message = _fitted(f"error: {plain(error.message)}", self._story)
        self._story.write(message.replace("error:", paint("error:", "red"), 1) + "\n")
        if error.hint:
            hint = _fitted(f"  next: {plain(error.hint)}", self._story)
            self._story.write(hint.replace("next:", paint("next:", "bold"), 1) + "\n")

    def close(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None

    def _progress(self, event: Progress, step: _Step) -> None:
        if self._moving:
            self._live_line().progress(event, step.deployment)
            return
        self._write_pending(step)
        gone = event.done - step.shown_at
        if event.unit == "seconds" and 0 <= gone < _IDLE_SECONDS:
            return
        if event.unit == "bytes" and event.total and 0 <= gone < event.total / 10:
            return
        step.shown_at = event.done
        self._write_line(f"    {step.of}{progress_text(event)}")

    def _line(self, text: str, step: _Step) -> None:
        shown = mask_urls(plain(text))
        if self._moving:  # gone after a moment: a failure shows it again
            self._live_line().print_above(shown, step.deployment)
        else:
            self._lately.append(text)
            self._write_pending(step)
            self._write_line(f"    {step.of}{shown}")

    def _write_pending(self, step: _Step) -> None:
        if step.pending:
            self._write_line(f"... {step.pending}")
            step.pending = ""

    def _write_line(self, text: str) -> None:
        text = mask_urls(text)
        if self._live is not None:
            self._live.above(text)
        else:
            self._story.write(_fitted(text, self._story) + "\n")
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


def human_view(verbosity: Verbosity = "normal") -> HumanView:
    """A view on this process's own streams; it is animated only if stderr is a terminal."""
    verbose = verbosity in ("verbose", "debug")
    live = sys.stderr.isatty() and not verbose
    story = sys.stderr
    if {"GITHUB_ACTIONS", "GITLAB_CI"} & os.environ.keys():
        story = cast("TextIO", WithoutCommands(sys.stderr))
    return HumanView(sys.stdout, story, live=live, quiet=verbosity == "quiet", verbose=verbose)


def _fitted(text: str, stream: TextIO) -> str:
    """In a terminal: broken between words, so that names and commands stay whole; what follows is indented."""
    if not stream.isatty():
        return text
    import textwrap
    from shutil import get_terminal_size

    width, lines = get_terminal_size().columns, []
    for line in text.split("\n"):
        if len(_COLOUR.sub("", line)) <= width:
            lines.append(line)
            continue
        lead = " " * (len(line) - len(line.lstrip()) + 2)
        lines += textwrap.wrap(
            line, width, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False
        )
    return "\n".join(lines)


def _in_a_line(text: str) -> str:
    return " ".join(plain(text).split())[:200]


def _cell(name: str, value: object) -> str:
    if name in ("size", "memory") and isinstance(value, (int, float)):
        return size_text(value)
    if name == "costs" and value:  # `lmi status` shows its parts, which would make the table too wide to read
        value = re.split(r": | \(", str(value))[0]
    if name in _TIMES and isinstance(value, str):
        from datetime import UTC, datetime

        value = relative_time(value, datetime.now(UTC))
    if isinstance(value, bool):
        value = "yes" if value else ""
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    return NOTHING if value in (None, "") else str(value)
