"""`lmi bench report`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from lmi_deploy.bench.report import Report
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.report_outputs import (
    ReportFiles,
    in_layout,
    layout_option,
    read_report,
    report_files_options,
)
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.errors import LmiError


@click.command("report")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@layout_option("that of the report")
@report_files_options
@json_option
def command(*, file: Path, layout: str | None, files: ReportFiles, as_json: bool) -> None:
    """Print the tables of the JSON report FILE, or write it in other forms."""
    context = open_context(as_json=as_json)
    report = in_layout(read_report(file), layout)
    written = show_report(
        report, context, files, shown=not any((files.html, files.markdown, files.csv, files.junit))
    )
    show_conclusion(report, context, written)


def show_report(
    report: Report, context: CommandContext, files: ReportFiles, *, shown: bool = True
) -> Sequence[Path]:
    """The tables (with `shown`), and the files; their paths."""
    from lmi_deploy.bench.report_tables import brief_tables
    from lmi_deploy.ui.bench_text import table_lines

    if shown:
        context.view.words(table_lines(brief_tables(report), context.view.width))
    written = files.write(report)
    for path in written:
        context.view.note(f"wrote {path}")
    return written


def show_conclusion(
    report: Report,
    context: CommandContext,
    written: Sequence[Path],
    require: Callable[[], None] = lambda: None,
) -> None:
    """The result, if `require` does not raise: then the error is the result, and people read the conclusion as well."""
    from lmi_deploy.bench.text_reports import headline

    try:
        require()
    except LmiError:
        context.view.words([headline(report)])
        raise
    fields = {
        "name": report.name,
        "points": len(report.points),
        "valid": report.is_valid,
        "judgement": report.judgement,
        "interrupted": report.interrupted,
        "search": {"state": report.search.state, "value": report.search.value} if report.search else None,
        "files": [str(path) for path in written],
    }
    context.view.result(fields, headline(report))
