"""A factorial design: every cell of it, and what one factor changes over all cells.

The deviation inside a cell is over its requests, the one between cells is over their means: they answer different
questions, and each column says which it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from lmi_deploy.bench.report import LoadPoint, Report, Summary
from lmi_deploy.bench.table_cells import (
    NOTHING,
    exact_baseline_of,
    factor_cell,
    factor_names,
    number,
    ratio,
)
from lmi_deploy.domain.report_table import ReportTable


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A cell and the same cell of the baseline."""

    before: LoadPoint
    after: LoadPoint

    @property
    def reduction(self) -> float:
        """Of the mean latency: 0.5 is half of it."""
        return 1 - self.after.metrics["e2e"].mean / self.before.metrics["e2e"].mean

    def speeds(self) -> tuple[float, float]:
        """Output tokens per second of a request; requests per second where there are no tokens."""
        return _speed(self.before), _speed(self.after)


def _speed(point: LoadPoint) -> float:
    user, asked = point.metrics.get("output_tokens_per_s_user"), point.factors.get("output_tokens")
    if user is None and isinstance(asked, int):
        return asked / point.metrics["e2e"].mean
    return user.mean if user else point.rate("requests_per_s")


def factorial_tables(report: Report) -> tuple[ReportTable, ...]:
    names = factor_names(report.points)
    pairs = [
        _Pair(before=base, after=point)
        for point in report.points
        if (base := exact_baseline_of(point, report)) and "e2e" in point.metrics and "e2e" in base.metrics
    ]
    tables = [_cell_table(report, names)]
    if pairs:
        group = "instance" if "instance" in names else ""
        tables.append(_effect_table(pairs, group, report))
        rest = [name for name in names if name != group and name in _numeric(report)]
        tables += [_by_factor(pairs, group, name) for name in rest]
        if len(rest) >= 2:
            tables += _heat_maps(pairs, group, (rest[0], rest[1]))
    return tuple(tables)


def _numeric(report: Report) -> set[str]:
    """Factors that have numbers as their values."""
    return {
        name
        for point in report.points
        for name, value in point.factors.items()
        if not isinstance(value, str) and len({p.factors.get(name) for p in report.points}) > 1
    }


def _cell_table(report: Report, names: Sequence[str]) -> ReportTable:
    rows = []
    for point in report.points:
        e2e, user = point.metrics.get("e2e"), point.metrics.get("output_tokens_per_s_user")
        rows.append(
            (
                *(factor_cell(point, name) for name in names),
                str(point.counts.sent),
                _mean_and_deviation(user, 1.0),
                _half_width(user, 1.0),
                _mean_and_deviation(e2e, 1000.0),
                _half_width(e2e, 1000.0),
            )
        )
    interval = f"±{report.confidence:.0%}"
    return ReportTable(
        title="Cells: tokens per second of a request, latency in milliseconds",
        columns=(*names, "requests", "tokens/s (SD)", interval, "latency (SD)", interval),
        rows=tuple(rows),
        notes=("SD: over the requests of the cell",),
    )


def _mean_and_deviation(summary: Summary | None, unit: float) -> str:
    if summary is None:
        return NOTHING
    deviation = summary.deviation
    return number(summary.mean * unit) + (
        f" ({number(deviation * unit, 3)})" if deviation is not None else ""
    )


def _half_width(summary: Summary | None, unit: float) -> str:
    if summary is None or summary.interval is None:
        return NOTHING
    return number((summary.interval[1] - summary.mean) * unit, 3)


def _effect_table(pairs: Sequence[_Pair], group: str, report: Report) -> ReportTable:
    rows = []
    for key, found in _grouped(pairs, group):
        before, after = zip(*(pair.speeds() for pair in found), strict=True)
        reductions = [pair.reduction * 100 for pair in found]
        rows.append(
            (
                *((key,) if group else ()),
                factor_cell(found[0].after, "variant"),
                f"{number(mean(before), 3)} ({_deviation(before)})",
                f"{number(mean(after), 3)} ({_deviation(after)})",
                ratio(mean(after) / mean(before)),
                f"{-mean(reductions):+.1f} % ({_deviation(reductions)} points)",
                f"{(mean(before) / mean(after) - 1) * 100:+.1f} %",
                str(len(found)),
            )
        )
    heads = (
        "variant",
        f"{report.baseline} /s (SD)",
        "/s (SD)",
        "speed-up",
        "latency (SD)",
        "by the speed-up",
        "cells",
    )
    return ReportTable(
        title=f"Effect against {report.baseline}",
        columns=(*((group,) if group else ()), *heads),
        rows=tuple(rows),
        notes=(
            "SD: between the cells; /s: tokens per second of a request (those asked for, if the server counts none), "
            "else requests per second",
            "latency: the mean of the cells' reductions; by the speed-up: the reduction of the ratio of the means",
        ),
    )


def _deviation(values: Sequence[float]) -> str:
    return number(stdev(values), 3) if len(values) > 1 else NOTHING


def _grouped(pairs: Sequence[_Pair], group: str) -> Iterator[tuple[str, list[_Pair]]]:
    """By the group's value and the variant."""
    found: dict[tuple[str, str], list[_Pair]] = {}
    for pair in pairs:
        key = factor_cell(pair.after, group) if group else "", factor_cell(pair.after, "variant")
        found.setdefault(key, []).append(pair)
    yield from ((key, values) for (key, _), values in found.items())


def _by_factor(pairs: Sequence[_Pair], group: str, name: str) -> ReportTable:
    rows = []
    for key, found in _grouped(pairs, group):
        for value in dict.fromkeys(factor_cell(pair.after, name) for pair in found):
            cells = [pair.reduction * 100 for pair in found if factor_cell(pair.after, name) == value]
            rows.append(
                (
                    *((key,) if group else ()),
                    factor_cell(found[0].after, "variant"),
                    value,
                    *(f"{number(figure, 3)} %" for figure in (mean(cells), min(cells), max(cells))),
                    str(len(cells)),
                )
            )
    return ReportTable(
        title=f"Reduction of the latency by {name}",
        columns=(*((group,) if group else ()), "variant", name, "mean", "min", "max", "cells"),
        rows=tuple(rows),
    )


def _heat_maps(pairs: Sequence[_Pair], group: str, names: tuple[str, str]) -> Iterator[ReportTable]:
    down, across = names
    for key, found in _grouped(pairs, group):
        cells: dict[tuple[str, str], list[float]] = {}
        for pair in found:
            place = factor_cell(pair.after, down), factor_cell(pair.after, across)
            cells.setdefault(place, []).append(pair.reduction * 100)
        columns = list(dict.fromkeys(column for _, column in cells))
        rows = [
            (line, *(f"{number(mean(cells.get((line, column), [math.nan])), 3)} %" for column in columns))
            for line in dict.fromkeys(line for line, _ in cells)
        ]
        of = ", ".join(filter(None, [key, factor_cell(found[0].after, "variant")]))
        yield ReportTable(
            title=f"Reduction of the latency, {of}: {down} down, {across} across",
            columns=(down, *columns),
            rows=tuple(rows),
        )
