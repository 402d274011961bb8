"""`lmi bench compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmi_deploy.cli.bench_verdicts import UndecidedIs, undecided_option
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.report_outputs import read_report
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors import ObjectiveMissed, Undecided, UsageRefused

if TYPE_CHECKING:
    from lmi_deploy.bench.report import Verdict


@click.command("compare")
@click.argument("before", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--threshold",
    type=click.FloatRange(0, 10),
    metavar="SHARE",
    help="Exit with 7 if AFTER is worse by more than this, such as 0.05 for 5 %.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="'NAME STATISTIC'",
    help="With --threshold: judge these figures only, such as 'e2e p99'.  [default: all means and rates]",
)
@undecided_option("fail")
@json_option
def command(
    *,
    before: Path,
    after: Path,
    threshold: float | None,
    metrics: tuple[str, ...],
    undecided: UndecidedIs,
    as_json: bool,
) -> None:
    """Compare the JSON report AFTER with the report BEFORE, point by point.

    A change is called better or worse only if its confidence interval excludes no change and, for means, a
    Mann-Whitney test on all requests agrees.

    With --threshold it is a gate: exit code 7 if a figure is certainly worse by more than that, 8 if the samples are
    too small to tell.
    """
    from lmi_deploy.bench.comparison import compare, comparison_table
    from lmi_deploy.ui.bench_text import table_lines

    if metrics and threshold is None:
        raise UsageRefused("--metric has no effect without --threshold", hint="add --threshold 0.05")
    context = open_context(as_json=as_json)
    found = compare(read_report(before), read_report(after), names=(str(before), str(after)))
    if as_json:
        context.view.rows([{**asdict(change), "direction": change.direction} for change in found.changes])
    context.view.words(table_lines([comparison_table(found)], context.view.width))
    verdicts = found.verdicts(threshold, metrics) if threshold is not None else ()
    if metrics and len(verdicts) == 0:
        names = sorted({f"{change.metric} {change.statistic}" for change in found.changes})
        raise UsageRefused(
            f"{', '.join(metrics)}: not in the reports", hint=f"name one of {', '.join(names)}"
        )
    _require_verdicts(verdicts, after, threshold, undecided)
    counts = {name: sum(change.direction == name for change in found.changes) for name in ("better", "worse")}
    open_verdicts = sum(one.judgement == "UNDECIDED" for one in verdicts)
    words = f"{counts['better']} better, {counts['worse']} worse, of {counted(len(found.changes), 'figure')}"
    words += f"; {open_verdicts} of {len(verdicts)} UNDECIDED at the threshold" if open_verdicts else ""
    fields = {
        **counts,
        "figures": len(found.changes),
        "undecided": open_verdicts,
        "warnings": [*found.warnings],
    }
    context.view.result(fields, words)


def _require_verdicts(
    verdicts: Sequence[Verdict], after: Path, threshold: float | None, undecided: UndecidedIs
) -> None:
    texts = {
        judgement: [f"{one.objective}: {one.text}" for one in verdicts if one.judgement == judgement]
        for judgement in ("FAIL", "UNDECIDED")
    }
    if failed := texts["FAIL"]:
        raise ObjectiveMissed(
            f"{after}: {counted(len(failed), 'figure')} of {len(verdicts)} worse by more than {threshold:g}",
            hint="find out what changed, or raise --threshold",
            details=failed,
        )
    if (left := texts["UNDECIDED"]) and undecided == "fail":
        raise Undecided(
            f"{after}: UNDECIDED: {len(left)} of {counted(len(verdicts), 'figure')} may be worse by more than "
            f"{threshold:g}, or not",
            hint="measure both longer, raise --threshold, judge fewer figures with --metric, or accept it with "
            "--undecided pass",
            details=left,
        )
