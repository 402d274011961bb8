"""Layouts of a report: the tables in which an experiment is published. `bench.layout` chooses one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from lmi_deploy.bench.cost import cost_per_million, money
from lmi_deploy.bench.factorial_design import factorial_tables
from lmi_deploy.bench.load import LOADS
from lmi_deploy.bench.report import LoadPoint, Report
from lmi_deploy.bench.table_cells import (
    NOTHING,
    UNDECIDED,
    baseline_of,
    exact_baseline_of,
    factor_cell,
    factor_names,
    milliseconds,
    number,
    objective_cell,
    percentile_cell,
    ratio,
    reduction,
    undecided_notes,
)
from lmi_deploy.domain.report_table import ReportTable


def layout_tables(report: Report) -> tuple[ReportTable, ...]:
    """None of `summary`, the layout of any other report: it has the common tables only."""
    return LAYOUTS[report.layout](report) if report.layout in LAYOUTS else ()


def sweep_tables(report: Report) -> tuple[ReportTable, ...]:
    """A sweep of the concurrency: QPS, max, min and mean beside those of the baseline."""
    names = [name for name in factor_names(report.points) if name != "concurrency"]
    return (
        ReportTable(
            title="Sweep of the concurrency: latency in milliseconds",
            columns=(
                *names,
                *("c", "QPS", "max", "min", "mean", "p50", "p99", "requests", "QPS x mean", "objectives"),
            ),
            rows=tuple(_sweep_row(point, names, report) for point in report.points),
            notes=(*undecided_notes(report.points, (0.5, 0.99)), *_delta_note(report)),
        ),
    )


def _sweep_row(point: LoadPoint, names: Iterable[str], report: Report) -> tuple[str, ...]:
    e2e, other = point.metrics.get("e2e"), exact_baseline_of(point, report)
    base = other.metrics.get("e2e") if other else None
    qps = point.rate("requests_per_s")
    mean, rate = milliseconds(e2e.mean if e2e else None), number(qps, 3)
    if e2e and base and other:
        mean += f" ({reduction(base.mean, e2e.mean)})"
        rate += f" ({ratio(qps / other.rate('requests_per_s'))})" if other.rate("requests_per_s") else ""
    return (
        *(factor_cell(point, name) for name in names),
        str(point.load.concurrency or NOTHING),
        rate,
        milliseconds(e2e.greatest if e2e else None),
        milliseconds(e2e.least if e2e else None),
        mean,
        percentile_cell(e2e, 0.5),
        percentile_cell(e2e, 0.99),
        str(point.counts.sent),
        number(qps * e2e.mean, 3) if e2e else NOTHING,
        objective_cell(point),
    )


def _delta_note(report: Report) -> tuple[str, ...]:
    return (f"in parentheses: against {report.baseline} under the same load",) if report.baseline else ()


_SETTINGS: Final = (
    *(("model", "Model"), ("engine", "Engine"), ("dtype", "dtype"), ("batch", "batch")),
    *(("tensor_parallel_degree", "TP"), ("workers", "workers")),
)


def percentile_tables(report: Report) -> tuple[ReportTable, ...]:
    """P50, P90 and P99 of a deployment, with its settings."""
    points = report.points
    shown = [(key, title) for key, title in _SETTINGS if any(_setting(point, key) for point in points)]
    quality = any("quality" in point.settings for point in points)
    rows = tuple(
        (
            *(_setting(point, key) or NOTHING for key, _ in shown),
            *(percentile_cell(point.metrics.get("e2e"), quantile) for quantile in (0.5, 0.9, 0.99)),
            str(point.metrics["e2e"].n if "e2e" in point.metrics else 0),
            number(point.rate("items_per_s")),
            _cost(point, "item"),
            *((_setting(point, "quality") or NOTHING,) if quality else ()),
        )
        for point in points
    )
    heads = ("P50", "P90", "P99", "n", "items/s", "$/1M items", *(("quality",) if quality else ()))
    return (
        ReportTable(
            title="Percentiles: latency in milliseconds",
            columns=(*(title for _, title in shown), *heads),
            rows=rows,
            notes=undecided_notes(points, (0.5, 0.9, 0.99)),
        ),
    )


def _setting(point: LoadPoint, key: str) -> str:
    return str(point.settings.get(key, point.factors.get(key, "")))


def _cost(point: LoadPoint, unit: str) -> str:
    amount, price = cost_per_million(point, unit), point.billed.price
    return NOTHING if amount is None or price is None else money(amount, price.currency)


def grid_tables(report: Report) -> tuple[ReportTable, ...]:
    """Variants side by side, a line for each model and instance: the mean of each, its ratio to the baseline, the
    upper bound of its P99, and the highest rate that met the objectives.
    """
    rest = [name for name in factor_names(report.points) if name not in ("variant", *LOADS)]
    variants = list(dict.fromkeys(factor_cell(point, "variant") for point in report.points))
    lines: dict[tuple[str, ...], dict[str, list[LoadPoint]]] = {}
    for point in report.points:
        key = tuple(factor_cell(point, name) for name in rest)
        lines.setdefault(key, {}).setdefault(factor_cell(point, "variant"), []).append(point)
    ordered = sorted(variants, key=lambda name: name != report.baseline)
    heads = [f"{name} {what}" for name in ordered for what in ("mean", "p99 bound", "objectives", "max rate")]
    return (
        ReportTable(
            title="Variants: latency in milliseconds, end to end",
            columns=(*rest, *heads),
            rows=tuple(
                (*key, *(cell for name in ordered for cell in _grid_cells(found, name, report)))
                for key, found in lines.items()
            ),
            notes=("p99 bound: the P99 is below it at the confidence of the report",),
        ),
    )


def _grid_cells(found: dict[str, list[LoadPoint]], variant: str, report: Report) -> tuple[str, ...]:
    """Of several loads the lightest has the latency, and the heaviest that meets the objectives is the rate."""
    points = sorted(found.get(variant, []), key=lambda point: point.rate("requests_per_s"))
    if not points or "e2e" not in points[0].metrics:
        return (NOTHING,) * 4
    first, e2e = points[0], points[0].metrics["e2e"]
    base = min(found.get(report.baseline, []), key=lambda point: point.rate("requests_per_s"), default=None)
    mean = milliseconds(e2e.mean)
    if base and base is not first and "e2e" in base.metrics:
        mean += f" ({ratio(base.metrics['e2e'].mean / e2e.mean)})"
    bound = next((figure.high for figure in e2e.percentiles if figure.quantile == 0.99), None)
    passed = [point.rate("requests_per_s") for point in points if point.passes and point.is_valid]
    return (
        mean,
        UNDECIDED if bound is None else milliseconds(bound),
        "PASS" if passed else objective_cell(first),
        number(max(passed), 3) if passed else NOTHING,
    )


def cost_tables(report: Report) -> tuple[ReportTable, ...]:
    """Throughput, P95 and cost of a million, with their ratios to the baseline."""
    names = [name for name in factor_names(report.points) if name != "concurrency"]
    heads = ("items/s", "P95 s", "$/1M", "throughput ratio", "cost ratio", "in flight", "price/h", "items/$")
    return (
        ReportTable(
            title="Throughput and cost",
            columns=(*names, *heads),
            rows=tuple(
                (*(factor_cell(point, name) for name in names), *_cost_cells(point, report))
                for point in report.points
            ),
            notes=(
                *undecided_notes(report.points, (0.95,)),
                *((f"ratios: to {report.baseline}, from unrounded figures",) if report.baseline else ()),
            ),
        ),
    )


def _cost_cells(point: LoadPoint, report: Report) -> tuple[str, ...]:
    e2e, price = point.metrics.get("e2e"), point.billed.price
    p95 = e2e.percentile(0.95) if e2e else None
    rate, amount = point.rate("items_per_s"), cost_per_million(point, "item")
    base = baseline_of(point, report)
    before = cost_per_million(base, "item") if base else None
    faster = base.rate("items_per_s") if base else 0.0
    return (
        number(rate),
        number(p95, 3) if p95 is not None else UNDECIDED,
        _cost(point, "item"),
        ratio(rate / faster) if faster else NOTHING,
        f"{amount / before:.0%}" if amount and before else NOTHING,
        number(point.in_flight, 3),
        f"{money(price.hourly * point.billed.count, price.currency)} ({price.date or 'undated'})"
        if price
        else NOTHING,
        number(1e6 / amount, 3) if amount else NOTHING,
    )


LAYOUTS: Final[dict[str, Callable[[Report], tuple[ReportTable, ...]]]] = {
    "sweep": sweep_tables,
    "percentiles": percentile_tables,
    "factorial": factorial_tables,
    "grid": grid_tables,
    "cost": cost_tables,
}
