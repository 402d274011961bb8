"""What is shown of a load while it runs, and when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmi_deploy.cli.context import CommandContext
from lmi_deploy.domain.events import Progress
from lmi_deploy.domain.number_text import seconds_text

if TYPE_CHECKING:
    from lmi_deploy.bench.run_limits import RunProgress
    from lmi_deploy.bench.run_sequence import MeasuredLoad


class LiveProgress:
    """A line a second: drawing it takes time of the client that is measured."""

    def __init__(self, context: CommandContext) -> None:
        self._view = context.view
        self._shown = 0

    def __call__(self, progress: RunProgress) -> None:
        second = int(progress.elapsed)
        if second == self._shown:
            return
        self._shown = second
        failed = f", {progress.failed} failed" if progress.failed else ""
        phase = "warm-up, " if progress.is_warming else ""
        note = (
            f"{phase}{progress.completed} responses{failed}, {progress.in_flight} in flight, "
            f"{seconds_text(progress.latency)} each"
        )
        event = Progress(key="bench", done=progress.seconds, total=None, unit="seconds", note=note)
        self._view.show(event)


def show_measured(each: MeasuredLoad, context: CommandContext) -> None:
    context.view.note(f"{each.point.load.words}: {each.ended}, {each.point.counts.sent} requests")
    for check in each.point.checks:
        if check.state != "ok":
            context.view.note(f"{check.state}: {check.text}")
