"""Lines that move at the bottom of a terminal, one for each deployment that is worked on; rich draws them."""

from __future__ import annotations

from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from lmi_deploy.domain import events
from lmi_deploy.domain.number_text import seconds_text, size_text
from lmi_deploy.ui.plain_text import plain

_BAR: Final = 20
_LEAST: Final = 8
_BESIDE_TITLE: Final = len("⠋ 0:00:00 ") + 1 + _BAR + 5
"""The spinner, the time and the bar, and a margin: Ctrl-C is echoed as ^C. In a full line it begins another one, and
the moving one stays.
"""


class LiveLine:
    """Shows the running actions; other output scrolls above them."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=False)
        self._bar = Progress(
            SpinnerColumn(),
            # Before a column that may be long: a narrow terminal cuts off on the right.
            TimeElapsedColumn(table_column=Column(min_width=len("0:00:00"))),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_BAR),
            TextColumn("{task.fields[note]}", markup=False),
            console=self._console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._bar.start()

    def begin(self, title: str, deployment: str = "") -> None:
        self.end(deployment)
        title = _shortened(title, self._console.width - _BESIDE_TITLE)
        self._tasks[deployment] = self._bar.add_task(title, total=None, note="")

    def end(self, deployment: str) -> bool:
        """Take away this deployment's line. True if none is left."""
        if deployment in self._tasks:
            self._bar.remove_task(self._tasks.pop(deployment))
        return not self._tasks

    def progress(self, event: events.Progress, deployment: str = "") -> None:
        if deployment not in self._tasks:
            self.begin(f"{deployment}: {event.key}" if deployment else event.key, deployment)
        seconds = event.unit == "seconds"
        task = self._tasks[deployment]
        self._bar.update(
            task,
            completed=0 if seconds else event.done,
            total=None if seconds else event.total,
            note=self._fitted(self._progress_text(event, task), task),
        )

    def print_above(self, text: str, deployment: str = "") -> None:
        """A line of another program, shown for a moment beside the bar."""
        if deployment in self._tasks:
            task = self._tasks[deployment]
            self._bar.update(task, note=self._fitted(plain(text), task))

    def above(self, text: str) -> None:
        self._console.print(Text.from_ansi(text))

    def close(self) -> None:
        self._bar.stop()

    def _fitted(self, note: str, task: TaskID) -> str:
        """As much as there is room for beside the title and the bar."""
        title = next((one.description for one in self._bar.tasks if one.id == task), "")
        return _shortened(note, self._console.width - len(title) - _BESIDE_TITLE - 1)

    def _progress_text(self, event: events.Progress, task: TaskID) -> str:
        if event.unit != "bytes":
            return plain(event.note) or f"{event.done:.0f} {event.unit}"
        return " ".join(
            part for part in (size_text(event.done), self._rate(event, task), plain(event.note)) if part
        )

    def _rate(self, event: events.Progress, task: TaskID) -> str:
        elapsed = next((one.elapsed for one in self._bar.tasks if one.id == task), None)
        if not elapsed or elapsed < 0.5:
            return ""
        rate = event.done / elapsed
        left = f", {seconds_text((event.total - event.done) / rate)} left" if event.total and rate else ""
        return f"at {size_text(rate)}/s{left}"


def _shortened(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return f"{text[: width - 1]}…" if width >= _LEAST else ""
