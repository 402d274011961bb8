"""Which plots a report has, from its points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Final

from lmi_deploy.bench.cost import cost_per_million
from lmi_deploy.bench.load import LOADS
from lmi_deploy.bench.objectives import Objective
from lmi_deploy.bench.percentiles import percentile
from lmi_deploy.bench.report import LoadPoint, Report
from lmi_deploy.bench.report_points import HEAT_CLASSES, HEAT_UNIT
from lmi_deploy.bench.svg_plots import COLOURS, Axis, Series, axis, heat_plot, line_plot, tick_label
from lmi_deploy.bench.table_cells import factor_cell, factor_names, number

_DASHES: Final = {0.5: "", 0.9: "6 3", 0.99: "2 3"}
_CURVE: Final = (
    *(0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.985),
    *(0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99999),
)
_MOST_CURVES: Final = COLOURS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """`legend`: name, number of the colour, and dash pattern of each line."""

    title: str
    svg: str
    legend: tuple[tuple[str, int, str], ...] = ()
    note: str = ""


def report_plots(report: Report, objectives: Sequence[Objective]) -> Iterator[Plot]:
    """Over all points."""
    points = [point for point in report.points if "e2e" in point.metrics]
    yield from (ramp_plot(point) for point in points if point.ramp)
    steady = [point for point in points if not point.load.ramp]
    if len({_load(point) for point in steady}) > 1:
        yield latency_against_load(steady)
    if points:
        yield distributions(points, "e2e", "end-to-end latency")
    if any("ttft" in point.metrics for point in points):
        yield distributions([p for p in points if "ttft" in p.metrics], "ttft", "time to first token")
    priced = [point for point in points if cost_per_million(point, "request")]
    if priced:
        yield cost_against_latency(priced, objectives)
    yield from factor_heat_map(points)


def point_plots(point: LoadPoint) -> Iterator[Plot]:
    """Of one point over its time."""
    if any(one.completed or one.failed for one in point.timeline):
        yield time_line(point)
        yield time_heat_map(point)


def _load(point: LoadPoint) -> float:
    return point.load.level(0.0)


def _group(point: LoadPoint) -> str:
    """A text says what it is; a number needs the name of its factor."""
    names = [name for name in point.factors if name not in LOADS]
    shown = {name: factor_cell(point, name) for name in names}
    return ", ".join(
        text if isinstance(point.factors[name], str) and not text[:1].isdigit() else f"{name}={text}"
        for name, text in shown.items()
    )


def latency_against_load(points: Sequence[LoadPoint]) -> Plot:
    """P50, P90 and P99 of each group of points over their load; a percentile that is undecided is not drawn."""
    kinds = {point.load.kind for point in points}
    title = (
        "concurrency (closed loop)" if kinds == {"closed"} else "requests per second asked for (open loop)"
    )
    title = "load: concurrency, or requests per second" if len(kinds) > 1 else title
    groups = list(dict.fromkeys(map(_group, points)))
    series, legend = [], []
    for colour, group in enumerate(groups):
        legend.append((group or "latency", colour, ""))
        for quantile, dash in _DASHES.items():
            found = [
                (_load(point), value * 1000)
                for point in sorted(points, key=_load)
                if _group(point) == group and (value := point.metrics["e2e"].percentile(quantile)) is not None
            ]
            name = f"{group} p{quantile * 100:g}".strip()
            series.append(Series(name=name, points=found, colour=colour, dash=dash))
    values = [value for one in series for _, value in one.points]
    legend += [(f"p{quantile * 100:g}", -1, dash) for quantile, dash in _DASHES.items()]
    svg = line_plot(
        "Latency against load",
        axis(title, map(_load, points)),
        axis("latency, ms", values, is_log=True),
        series,
    )
    broken = ", ".join(point.name for point in points if not point.is_valid)
    note = f"INVALID, but drawn: {broken}" if broken else ""
    return Plot(title="Latency against load", svg=svg, legend=tuple(legend), note=note)


def ramp_plot(point: LoadPoint) -> Plot:
    """Latency over the parts of a ramp; a percentile that is undecided is not drawn."""
    title = "concurrency" if point.load.kind == "closed" else "requests per second asked for"
    series, legend = [], []
    for colour, name in enumerate(("p50", "p90", "p99", "mean")):
        found = [(one.asked, value * 1000) for one in point.ramp if (value := getattr(one, name)) is not None]
        series.append(Series(name=name, points=sorted(found), colour=colour))
        legend.append((name, colour, ""))
    values = [value for one in series for _, value in one.points]
    svg = line_plot(
        f"Ramp {point.name}",
        axis(title, [one.asked for one in point.ramp]),
        axis("latency, ms", values, is_log=True),
        series,
    )
    note = "" if point.is_valid else "INVALID, but drawn"
    return Plot(title=f"Ramp {point.name}", svg=svg, legend=tuple(legend), note=note)


def distributions(points: Sequence[LoadPoint], metric: str, title: str) -> Plot:
    """Percentile curves, as far as each sample supports them; in the order of the report, so that a point has the same
    colour in each plot.
    """
    shown = [*points]
    if len(shown) > _MOST_CURVES:
        by_mean = sorted(shown, key=lambda point: point.metrics[metric].mean)
        chosen = [by_mean[round(i * (len(by_mean) - 1) / (_MOST_CURVES - 1))] for i in range(_MOST_CURVES)]
        shown = [point for point in shown if point in chosen]
    series, legend = [], []
    for colour, point in enumerate(shown):
        sample = point.metrics[metric].sample()
        found = [(quantile, percentile(sample, quantile)) for quantile in _CURVE]
        curve = [
            (1 / (1 - quantile), one.value * 1000) for quantile, one in found if one and one.is_supported
        ]
        series.append(Series(name=point.name, points=curve, colour=colour, has_marks=False))
        legend.append((point.name, colour, ""))
    ends = [a for one in series for a, _ in one.points] or [1.0, 100.0]
    x = Axis(title="percentile", low=1.0, high=max(max(ends), 20.0), is_log=True, labels=_percent_label)
    y = axis(f"{title}, ms", [b for one in series for _, b in one.points], is_log=True)
    left = len(points) - len(shown)
    return Plot(
        title=f"Distribution: {title}",
        svg=line_plot(f"Percentiles of the {title}", x, y, series),
        legend=tuple(legend),
        note=f"{left} points between these are not drawn" if left else "",
    )


def _percent_label(value: float) -> str:
    return f"p{(1 - 1 / value) * 100:.6g}"


def cost_against_latency(points: Sequence[LoadPoint], objectives: Sequence[Objective]) -> Plot:
    """A mark a point: cost of a million requests over the percentile of the first objective, else P50."""
    limits = [one for one in objectives if one.metric == "e2e" and one.quantile is not None]
    quantile = limits[0].quantile if limits and limits[0].quantile else 0.5
    groups = list(dict.fromkeys(map(_group, points)))
    series = []
    for colour, group in enumerate(groups):
        found = []
        for point in points:
            one = percentile(point.metrics["e2e"].sample(), quantile)
            if _group(point) == group and one and one.is_supported:
                found.append((one.value * 1000, cost_per_million(point, "request") or 0.0))
        series.append(Series(name=group or "cost", points=sorted(found), colour=colour, dash="1 4"))
    rules = {limits[0].words: limits[0].limit * 1000} if limits else {}
    xs = [*(a for one in series for a, _ in one.points), *rules.values()]
    ys = [b for one in series for _, b in one.points]
    svg = line_plot(
        "Cost against latency",
        axis(f"p{quantile * 100:g} of the latency, ms", xs, is_log=True),
        axis("cost of a million requests", ys, is_log=True),
        series,
        rules=rules,
    )
    legend = tuple((one.name, one.colour, "") for one in series)
    return Plot(title="Cost against objective" if limits else "Cost against latency", svg=svg, legend=legend)


def factor_heat_map(points: Sequence[LoadPoint]) -> Iterator[Plot]:
    """Of a design over two numbers: the mean latency of each group of cells."""
    varying = factor_names(points, only=True)
    names = [name for name in varying if all(isinstance(p.factors.get(name), int | float) for p in points)]
    if len(names) < 2:
        return
    down, across = names[:2]
    columns, rows = _levels(points, across), _levels(points, down)
    rest = [name for name in varying if name not in (down, across)]
    for group in dict.fromkeys(tuple(factor_cell(point, name) for name in rest) for point in points):
        cells: dict[tuple[int, int], list[float]] = {}
        for point in points:
            if tuple(factor_cell(point, name) for name in rest) == group:
                place = columns.index(_level(point, across)), rows.index(_level(point, down))
                cells.setdefault(place, []).append(point.metrics["e2e"].mean * 1000)
        most = max(mean(values) for values in cells.values())
        shown = {
            (column, row): (
                mean(values) / most,
                f"{down} {rows[row]}, {across} {columns[column]}: {number(mean(values))} ms",
                number(mean(values), 3),
            )
            for (column, row), values in cells.items()
        }
        title = ", ".join(("Mean latency", *group))
        svg = heat_plot(title, (across, down), [*map(str, columns)], [*map(str, rows)], shown)
        yield Plot(title=title, svg=svg, note=f"in milliseconds; the darkest cell: {number(most)} ms")


def _level(point: LoadPoint, name: str) -> float:
    value = point.factors[name]
    assert not isinstance(value, str)
    return value


def _levels(points: Sequence[LoadPoint], name: str) -> list[float]:
    return sorted({_level(point, name) for point in points})


def time_line(point: LoadPoint) -> Plot:
    """Median and greatest latency, requests in flight, and failures, over the time of the run."""
    length = max(point.timeline[1].begin - point.timeline[0].begin, 1e-9) if len(point.timeline) > 1 else 1.0
    times = {
        "p50, ms": [(one.begin + length / 2, one.p50 * 1000) for one in point.timeline if one.p50],
        "greatest, ms": [
            (one.begin + length / 2, one.greatest * 1000) for one in point.timeline if one.greatest
        ],
        "in flight": [(one.begin + length / 2, one.in_flight) for one in point.timeline],
        "requests/s": [(one.begin + length / 2, one.completed / length) for one in point.timeline],
        "failed/s": [(one.begin + length / 2, one.failed / length) for one in point.timeline if one.failed],
    }
    series = [
        Series(name=name, points=values, colour=colour, has_marks=name == "failed/s")
        for colour, (name, values) in enumerate(times.items())
    ]
    values = [value for one in series for _, value in one.points]
    svg = line_plot(
        f"Time line of {point.name}",
        replace(axis("seconds", [0.0]), high=point.timeline[-1].begin + length),
        axis("ms, requests, requests/s", values, is_log=True),
        series,
    )
    legend = tuple((one.name, one.colour, "") for one in series if one.points)
    return Plot(title=f"Time line: {point.name}", svg=svg, legend=legend)


def time_heat_map(point: LoadPoint) -> Plot:
    """How many responses had which latency, over the time of the run: two modes and pauses show here."""
    classes = [latency_class for one in point.timeline for latency_class, _ in one.heat] or [0]
    low, high = min(classes), max(classes)
    most = max((count for one in point.timeline for _, count in one.heat), default=1)
    cells = {
        (column, latency_class - low): (
            math.log1p(count) / math.log1p(most),
            f"{number(one.begin, 3)} s, {_class_label(latency_class)} ms and above: {count}",
            "",
        )
        for column, one in enumerate(point.timeline)
        for latency_class, count in one.heat
    }
    svg = heat_plot(
        f"Latencies of {point.name} over time",
        ("seconds", "latency, ms"),
        [tick_label(round(one.begin, 1)) for one in point.timeline],
        [_class_label(latency_class) for latency_class in range(low, high + 1)],
        cells,
    )
    return Plot(title=f"Latencies over time: {point.name}", svg=svg)


def _class_label(latency_class: int) -> str:
    return number(HEAT_UNIT * 1000 * 2 ** (latency_class / HEAT_CLASSES), 2)
