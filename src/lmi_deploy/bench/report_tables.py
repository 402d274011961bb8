"""The tables that every report has: figures, consistency, verdicts, cost, capacity, provenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from lmi_deploy.bench.consistency_checks import check_same_load, check_saturation, row_of
from lmi_deploy.bench.cost import best_point, capacity, cost_per_million, costs, money
from lmi_deploy.bench.ramp_slices import ramp_tables
from lmi_deploy.bench.report import Check, LoadPoint, Report, SearchAnswer
from lmi_deploy.bench.report_layouts import layout_tables
from lmi_deploy.bench.table_cells import (
    NOTHING,
    baseline_of,
    input_counter,
    load_sweeps,
    milliseconds,
    number,
    objective_cell,
    percentile_cell,
    undecided_notes,
)
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.report_table import ReportTable

_STREAM_METRICS: Final = (("ttft", "TTFT"), ("itl", "gap"), ("tpot", "TPOT"))
_MANY: Final = 16
_PRICED: Final = (
    ("request", "requests"),
    ("item", "items"),
    ("input token", "input"),
    ("output token", "output"),
)


def report_tables(report: Report) -> tuple[ReportTable, ...]:
    """The layout's own tables first."""
    return (*layout_tables(report), *_shared_tables(report), _provenance_table(report))


def brief_tables(report: Report) -> tuple[ReportTable, ...]:
    """For a terminal: of many points only what the layout says of them, the verdicts and what is wrong."""
    tables = (*layout_tables(report), *_shared_tables(report))
    if len(report.points) <= _MANY:
        return tables
    return tuple(table for table in tables if len(table.rows) < len(report.points) or not table.rows)


def _shared_tables(report: Report) -> Iterator[ReportTable]:
    if report.search:
        yield _search_table(report.search)
    yield from ramp_tables(report)
    yield summary_table(report)
    if any(name in point.metrics for point in report.points for name, _ in _STREAM_METRICS):
        yield stream_table(report)
    if any(point.counts.input_tokens or point.counts.output_tokens for point in report.points):
        yield token_table(report)
    if any(point.verdicts for point in report.points):
        yield _verdict_table(report)
    if any(point.billed.price for point in report.points):
        yield cost_table(report)
    if any(point.cloudwatch for point in report.points):
        yield _cloudwatch_table(report)
    yield _check_table(report)


def summary_table(report: Report) -> ReportTable:
    """One line a point: load, count, errors, rate and latencies."""
    quantiles = (0.5, 0.9, 0.99)
    return ReportTable(
        title="Latency in milliseconds, end to end",
        columns=(
            "point",
            "requests",
            "failed",
            "in flight",
            "requests/s",
            "mean",
            "SD",
            "p50",
            "p90",
            "p99",
            "verdict",
        ),
        rows=tuple(_summary_row(point, quantiles) for point in report.points),
        notes=undecided_notes(report.points, quantiles),
    )


def _summary_row(point: LoadPoint, quantiles: tuple[float, ...]) -> tuple[str, ...]:
    e2e = point.metrics.get("e2e")
    return (
        point.name,
        str(point.counts.sent),
        str(point.counts.failed),
        number(point.in_flight, 3),
        _rate_cell(point, "requests_per_s"),
        _mean_cell(point, "e2e"),
        milliseconds(e2e.deviation) if e2e else NOTHING,
        *(percentile_cell(e2e, quantile) for quantile in quantiles),
        objective_cell(point),
    )


def _mean_cell(point: LoadPoint, metric: str) -> str:
    summary = point.metrics.get(metric)
    if summary is None:
        return NOTHING
    interval = summary.interval
    half = f" ±{number((interval[1] - summary.mean) * 1000, 2)}" if interval else ""
    return f"{milliseconds(summary.mean)}{half}"


def _rate_cell(point: LoadPoint, name: str) -> str:
    rate = point.rates.get(name)
    if rate is None:
        return NOTHING
    half = f" ±{number(rate.interval[1] - rate.value, 2)}" if rate.interval else ""
    return f"{number(rate.value)}{half}"


def stream_table(report: Report) -> ReportTable:
    """Times inside of streams, and tokens per second."""
    heads = [f"{title} {name}" for _, title in _STREAM_METRICS for name in ("p50", "p99")]
    return ReportTable(
        title="Streams: times in milliseconds, tokens per second",
        columns=("point", *heads, "tokens/s of a user", "tokens/s of all"),
        rows=tuple(
            (
                point.name,
                *(
                    percentile_cell(point.metrics.get(metric), quantile)
                    for metric, _ in _STREAM_METRICS
                    for quantile in (0.5, 0.99)
                ),
                number(user.mean) if (user := point.metrics.get("output_tokens_per_s_user")) else NOTHING,
                _rate_cell(point, "output_tokens_per_s"),
            )
            for point in report.points
        ),
    )


def token_table(report: Report) -> ReportTable:
    """Tokens of a request on average, and of all per second."""
    return ReportTable(
        title="Tokens, of a request (mean) and per second",
        columns=("point", "input", "output", "input tokens/s", "output tokens/s", "input counted by"),
        rows=tuple(
            (
                point.name,
                number(counts.input_tokens / counts.input_counted) if counts.input_counted else NOTHING,
                number(counts.output_tokens / counts.succeeded) if counts.output_tokens else NOTHING,
                _rate_cell(point, "input_tokens_per_s"),
                _rate_cell(point, "output_tokens_per_s"),
                input_counter(counts),
            )
            for point in report.points
            for counts in [point.counts]
        ),
    )


def _search_table(search: SearchAnswer) -> ReportTable:
    rows = tuple((str(n + 1), one.point, one.outcome, one.text) for n, one in enumerate(search.steps))
    return ReportTable(
        title="Search for the highest rate" if search.kind == "max-rate" else "Search for the knee",
        columns=("step", "point", "outcome", "by"),
        rows=rows,
        notes=(f"{search.state}: {search.text}",),
    )


def _verdict_table(report: Report) -> ReportTable:
    rows = [
        (point.name, one.objective, one.judgement, one.text)
        for point in report.points
        for one in point.verdicts
    ]
    return ReportTable(
        title="Objectives",
        columns=("point", "objective", "verdict", "by"),
        rows=tuple(rows),
        notes=(
            f"PASS and FAIL are claims at {report.confidence:.0%} confidence; failed requests are above every limit",
        ),
    )


def cost_table(report: Report) -> ReportTable:
    """At the measured rate, and what autoscaling needs."""
    rows = [
        (
            point.name,
            f"{point.billed.count} x {point.billed.instance}",
            money(point.billed.price.hourly, point.billed.price.currency),
            *(_cost_cell(point, unit) for unit, _ in _PRICED),
            f"{point.billed.price.source}, {point.billed.price.date or 'undated'}",
        )
        for point in report.points
        if point.billed.price
    ]
    return ReportTable(
        title="Cost of a million at the measured rate",
        columns=("point", "instances", "an hour", *(name for _, name in _PRICED), "price from"),
        rows=tuple(rows),
        notes=tuple(_capacity_lines(report)),
    )


def _capacity_lines(report: Report) -> Iterator[str]:
    """Of each deployment."""
    sweeps = load_sweeps(report)
    for name, points in sweeps.items():
        found = capacity(points)
        if found:
            first, *rest = found.lines()
            yield f"{name}: {first}" if len(sweeps) > 1 else first
            yield from rest
        best = best_point(points)
        if best and best.verdicts:
            yield f"within the objectives: {', '.join(cost.words for cost in costs(best))} ({best.name})"


def _cost_cell(point: LoadPoint, unit: str) -> str:
    amount = cost_per_million(point, unit)
    return (
        NOTHING
        if amount is None or point.billed.price is None
        else money(amount, point.billed.price.currency)
    )


def _cloudwatch_table(report: Report) -> ReportTable:
    names = list(dict.fromkeys(name for point in report.points for name in point.cloudwatch))
    return ReportTable(
        title="Measured by SageMaker (CloudWatch) in the same minutes",
        columns=("point", *names),
        rows=tuple(
            (point.name, *(number(point.cloudwatch.get(name)) for name in names)) for point in report.points
        ),
        notes=("CloudWatch has one value a minute, and counts the warm-up, too",),
    )


def _check_table(report: Report) -> ReportTable:
    """What is wrong, point by point; else that all is well."""
    rows: list[tuple[str, ...]] = [
        (point.name, check.name, check.state, check.text)
        for point in report.points
        for check in point.checks
        if check.state != "ok"
    ]
    across = [check for check in _checks_across(report) if check.state != "ok"]
    rows += [("all", check.name, check.state, check.text) for check in across]
    passed = sum(check.state == "ok" for point in report.points for check in point.checks)
    return ReportTable(
        title="Consistency",
        columns=("point", "check", "state", "what"),
        rows=tuple(rows),
        notes=(f"{passed} checks passed",),
    )


def _checks_across(report: Report) -> Iterator[Check]:
    """Of sweeps, and of points that are compared with each other."""
    for name, points in load_sweeps(report).items():
        saturation = check_saturation([row_of(point) for point in points])
        if saturation:
            yield replace(saturation, text=f"{name}: {saturation.text}" if name else saturation.text)
    pairs = [(base, point) for point in report.points if (base := baseline_of(point, report))]
    found = [check for pair in pairs if (check := check_same_load([*map(row_of, pair)]))]
    unequal = [check for check in found if check.state != "ok"]
    if unequal:
        more = f"; so had {counted(len(unequal) - 1, 'other pair')}" if len(unequal) > 1 else ""
        yield replace(unequal[0], text=unequal[0].text + more)


def _provenance_table(report: Report) -> ReportTable:
    given = report.provenance
    fields: Mapping[str, str] = {
        "measured": report.created,
        "by": given.tool,
        "Python": given.python,
        "machine": f"{given.machine}, {given.cpus} CPUs",
        "clock": given.clock,
        "seed": str(report.seed),
        "confidence": f"{report.confidence:.0%}",
        **given.details,
    }
    return ReportTable(
        title="Provenance", columns=("what", "value"), rows=tuple(fields.items()), notes=report.notes
    )
