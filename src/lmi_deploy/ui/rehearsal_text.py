"""The report of a rehearsal, for people: 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lmi_deploy.domain.number_text import seconds_text

if TYPE_CHECKING:
    from lmi_deploy.domain.rehearsal_report import RehearsalReport

_WIDTH: Final = 80
_STEP: Final = 26
_TIME: Final = 12


def report_lines(report: RehearsalReport) -> Iterator[str]:
    """A line for each step, then what was proved, what was emulated, and what was neither."""
    yield f"{'step':<{_STEP}}{'time':<{_TIME}}result"
    for step in report.steps:
        first, *rest = textwrap.wrap(step.outcome, _WIDTH - _STEP - _TIME) or [""]
        yield f"{step.name:<{_STEP}}{seconds_text(step.seconds):<{_TIME}}{first}"
        yield from (" " * (_STEP + _TIME) + line for line in rest)
    yield ""
    yield from _section("proved here", report.proved)
    yield from _section("emulated", report.emulated)
    yield from _section("not provable here", report.not_provable)
    times = [f"here: {seconds_text(report.seconds)}, no cost", *filter(None, [report.cost])]
    yield from _section("time and cost", times)


def kept_lines(
    report: RehearsalReport, folder: Path, variables: Mapping[str, str], emulator: int, *, seconds: float
) -> Iterator[str]:
    """How to reach what is kept, and how to end it. `emulator` is the number of its process (0: there is none), which
    ends by itself after `seconds`.
    """
    yield ""
    yield f"{report.deployment} still runs, in {folder}. To reach it from a shell:"
    yield from (f"  export {name}={value}" for name, value in variables.items())
    yield f"  lmi invoke {report.deployment} Hello"
    stop = f"kill {emulator}" if emulator else f"lmi down {report.deployment} --yes"
    yield f"To end it: `{stop}; rm -r {folder}`"
    if emulator:
        yield f"The emulator ends by itself after {seconds_text(seconds)}."


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"{title}:"
    for line in lines:
        yield from textwrap.wrap(line, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
