"""One line that moves at the bottom of a terminal; rich draws it."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from lmi_deploy.domain import events
from lmi_deploy.domain.number_text import seconds_text, size_text
from lmi_deploy.ui.plain_text import plain


class LiveLine:
    """Shows the running action; other output scrolls above it."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=False)
        self._bar = Progress(
            SpinnerColumn(),
            # Before a column that may be long: a narrow terminal cuts off on the right.
            TimeElapsedColumn(table_column=Column(min_width=len("0:00:00"))),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[note]}", markup=False),
            console=self._console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._bar.start()

    def begin(self, title: str) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(title, total=None, note="")

    def progress(self, event: events.Progress) -> None:
        if self._task is None:
            self.begin(event.key)
        assert self._task is not None
        seconds = event.unit == "seconds"
        self._bar.update(
            self._task,
            completed=0 if seconds else event.done,
            total=None if seconds else event.total,
            note=self._progress_text(event),
        )

    def print_above(self, text: str) -> None:
        """A line of another program, shown for a moment beside the bar."""
        if self._task is not None:
            self._bar.update(self._task, note=plain(text)[: max(20, self._console.width - 60)])

    def above(self, text: str) -> None:
        self._console.print(Text.from_ansi(text))

    def close(self) -> None:
        self._bar.stop()

    def _progress_text(self, event: events.Progress) -> str:
        if event.unit != "bytes":
            return plain(event.note) or f"{event.done:.0f} {event.unit}"
        return " ".join(
            part for part in (size_text(event.done), self._rate(event), plain(event.note)) if part
        )

    def _rate(self, event: events.Progress) -> str:
        task = self._bar.tasks[0] if self._bar.tasks else None
        if task is None or not task.elapsed or task.elapsed < 0.5:
            return ""
        rate = event.done / task.elapsed
        left = f", {seconds_text((event.total - event.done) / rate)} left" if event.total and rate else ""
        return f"at {size_text(rate)}/s{left}"
