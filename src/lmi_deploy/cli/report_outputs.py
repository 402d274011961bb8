"""The files that a report of `lmi bench` is written to, and reading one back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from lmi_deploy.bench.report import Report
from lmi_deploy.cli.output_files import writing
from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors import UsageRefused

if TYPE_CHECKING:
    from lmi_deploy.bench.parquet_records import ParquetRecords
    from lmi_deploy.bench.request_records import RequestRecord
    from lmi_deploy.bench.run_sequence import MeasuredLoad

F = TypeVar("F", bound=Callable[..., Any])
LAYOUT_NAMES: Final = ("summary", "sweep", "percentiles", "factorial", "grid", "cost")
_FORMS = {
    "html": "One page with plots, without external resources.",
    "markdown": "The tables.",
    "csv": "A line a point, all figures.",
    "junit": "A test case an objective, for CI.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """None: not asked for."""

    html: Path | None = None
    markdown: Path | None = None
    csv: Path | None = None
    junit: Path | None = None

    def write(self, report: Report) -> list[Path]:
        """The files that were written. An existing file is replaced: they are all made from the JSON report."""
        texts = {self.html: _html, self.markdown: _markdown, self.csv: _csv, self.junit: _junit}
        written = [path for path in texts if path is not None]
        for path in written:
            with writing(path):
                path.write_text(texts[path](report), encoding="utf-8")
        return written


def _html(report: Report) -> str:
    from lmi_deploy.bench.html_report import to_html
    from lmi_deploy.bench.objectives import read_objective
    from lmi_deploy.bench.report_tables import report_tables

    return to_html(report, report_tables(report), [*map(read_objective, report.objectives)])


def _markdown(report: Report) -> str:
    from lmi_deploy.bench.report_tables import report_tables
    from lmi_deploy.bench.text_reports import to_markdown

    return to_markdown(report, report_tables(report))


def _csv(report: Report) -> str:
    from lmi_deploy.bench.text_reports import to_csv

    return to_csv(report)


def _junit(report: Report) -> str:
    from lmi_deploy.bench.text_reports import to_junit

    return to_junit(report)


class RecordsFile:
    """`--records`: the requests of each load, written when it ends. A full disk does not end the measurement."""

    def __init__(self, path: Path, report: str) -> None:
        from lmi_deploy.bench.parquet_records import SUFFIX, ParquetRecords
        from lmi_deploy.bench.request_records_file import head_line

        self._path = path
        self._written = 0
        self._failure: OSError | None = None
        self._parquet: ParquetRecords | None = None
        with writing(path):
            if path.suffix == SUFFIX:
                self._parquet = ParquetRecords(path, report)
            else:
                path.write_text(head_line(report), encoding="utf-8")

    def add(self, measured: MeasuredLoad) -> str:
        """Why they cannot be written; empty if they are."""
        records = measured.result.records
        if self._failure is None:
            try:
                self._append(measured.point.name, records)
            except OSError as reason:
                self._failure = reason
            else:
                self._written += len(records)
        return "" if self._failure is None else f"{self._path}: {_reason(self._failure)}"

    def _append(self, point: str, records: Sequence[RequestRecord]) -> None:
        from lmi_deploy.bench.request_records_file import record_lines

        if self._parquet is not None:
            self._parquet.add(point, records)
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(record_lines(point, records))

    def require_complete(self) -> None:
        """UsageRefused if requests are missing in it."""
        if self._failure is not None:
            raise UsageRefused(
                f"{self._path}: {_reason(self._failure)}: only the loads before it are complete, "
                f"{counted(self._written, 'request')}; the report has all of them",
                hint="name a folder that has free space",
            )


def _reason(failure: OSError) -> str:
    """Those of Arrow have a text only."""
    return failure.strerror or str(failure)


def report_files_options(function: F) -> F:
    """`--html`, `--markdown`, `--csv` and `--junit`: the command gets one `files`."""

    @functools.wraps(function)
    def wrapped(**arguments: Any) -> Any:
        paths = {form: arguments.pop(form) for form in _FORMS}
        return function(files=ReportFiles(**paths), **arguments)

    for form, text in reversed(_FORMS.items()):
        kind = click.Path(dir_okay=False, path_type=Path)
        wrapped = click.option(f"--{form}", type=kind, metavar="FILE", help=text)(wrapped)
    return wrapped  # type: ignore[return-value]


def layout_option(default: str) -> Callable[[F], F]:
    """`--layout`; `default` says in the help what comes without it."""
    return click.option(
        "--layout",
        type=click.Choice(LAYOUT_NAMES),
        help=f"The first tables, as `bench.layout` of a recipe chooses them.  [default: {default}]",
    )


def in_layout(report: Report, layout: str | None) -> Report:
    """With None, the report's own."""
    return report if layout is None else replace(report, layout=layout)


def read_report(path: Path) -> Report:
    """UsageRefused if it cannot be read, or is no report that this version understands."""
    from lmi_deploy.bench.report_file import from_json

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else "not a text"
        hint = "name a JSON report of `lmi bench`"
        raise UsageRefused(f"{path}: {why}", hint=hint) from None
    return from_json(text, str(path))
