"""What is shown of a load while it runs, and when it has ended; its report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lmi_deploy.bench.whole_file import whole_file
from lmi_deploy.cli.context import CommandContext
from lmi_deploy.cli.output_files import writing
from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.errors import UsageRefused

if TYPE_CHECKING:
    from lmi_deploy.bench.cloudwatch_figures import Between, LoadTime
    from lmi_deploy.bench.load_generator import Watch
    from lmi_deploy.bench.load_job import LoadJob
    from lmi_deploy.bench.report import Report
    from lmi_deploy.bench.run_sequence import MeasuredLoad, Measurement
    from lmi_deploy.domain.record import DeploymentRef

cloudwatch_option: Final = click.option(
    "--cloudwatch-wait",
    type=click.FloatRange(0, 900),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait for CloudWatch's figures of the loads, which come minutes late; 0: leave them out.",
)


def measure_here(measurement: Measurement, watch: Watch, ended: Callable[[MeasuredLoad], None]) -> Report:
    from lmi_deploy.bench.run_sequence import measure

    return measure(measurement, watch, ended)


def measure_by_job(
    ref: DeploymentRef,
    job: LoadJob,
    context: CommandContext,
    watch: Watch,
    ended: Callable[[MeasuredLoad], None],
) -> Report:
    from lmi_deploy.bench.deployed_load import measured_by_job

    return measured_by_job(ref, job, context.deps, watch=watch, notify=ended, show=context.view.show)


def show_measured(each: MeasuredLoad, context: CommandContext) -> None:
    context.view.note(f"{each.point.load.words}: {each.ended}, {each.point.counts.sent} requests")
    for check in each.point.checks:
        if check.state != "ok":
            context.view.note(f"{check.state}: {check.text}")


def with_cloudwatch(
    report: Report, times: list[LoadTime], measured: Between | None, wait: float, context: CommandContext
) -> Report:
    """After Ctrl-C only what is there at once. The report as it is without `measured` or with no time to wait."""
    if measured is None or not wait:
        return report
    from lmi_deploy.bench.cloudwatch_figures import CloudWatchReader

    wait = 0.0 if report.interrupted else wait
    if wait:
        context.view.note(f"reading CloudWatch: its values come minutes late, at most {seconds_text(wait)}")
    reader = CloudWatchReader(between=measured, clock=context.deps.clock, wait=wait)
    found = reader.add(report, times)
    for note in found.notes[len(report.notes) :]:
        context.view.note(note)
    return found


def write_report(report: Report, output: Path, context: CommandContext) -> None:
    from lmi_deploy.bench.report_file import to_json

    with tables_if_lost(report, context), writing(output):
        _write_whole(output, to_json(report))
    context.view.note(f"wrote {output}")


@contextmanager
def tables_if_lost(report: Report, context: CommandContext) -> Iterator[None]:
    """What was measured is printed if it cannot be written."""
    from lmi_deploy.bench.report_tables import brief_tables
    from lmi_deploy.ui.bench_text import table_lines

    try:
        yield
    except UsageRefused:
        context.view.words(table_lines(brief_tables(report), context.view.width))
        raise


def _write_whole(path: Path, text: str) -> None:
    """An earlier report stays until the new one is whole. A device or a pipe is written as it is."""
    place = path.resolve()
    if not place.is_file() or not os.access(place.parent, os.W_OK):
        path.write_text(text, encoding="utf-8")
        return
    with whole_file(place) as part:
        part.write_text(text, encoding="utf-8")
