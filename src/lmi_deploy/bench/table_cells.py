"""Figures as cells of a table, and the point that another one is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from lmi_deploy.bench.load import LOADS
from lmi_deploy.bench.percentiles import percentile_name
from lmi_deploy.bench.report import Factor, LoadPoint, Report, RequestCounts, Summary

NOTHING = "-"
UNDECIDED = "UNDECIDED"


def number(value: float | None, digits: int = 4) -> str:
    """So many significant digits, without an exponent: `0.01235`, `12.35`, `1,235`, `12,345,678`."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "no bound"
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(places, 0)}f}"


def milliseconds(seconds: float | None) -> str:
    return number(seconds * 1000 if seconds is not None else None)


def percentile_cell(summary: Summary | None, quantile: float) -> str:
    """In milliseconds; UNDECIDED if the sample is too small for it."""
    if summary is None:
        return NOTHING
    value = summary.percentile(quantile)
    return UNDECIDED if value is None else milliseconds(value)


def undecided_notes(points: Iterable[LoadPoint], quantiles: Sequence[float]) -> tuple[str, ...]:
    """Why a table has the word UNDECIDED."""
    notes = []
    for quantile in quantiles:
        small = [
            (summary.n, figure.needed)
            for point in points
            for name, summary in point.metrics.items()
            if name == "e2e"
            for figure in summary.percentiles
            if figure.quantile == quantile and figure.value is None
        ]
        if small:
            least, needed = min(n for n, _ in small), small[0][1]
            notes.append(
                f"{percentile_name(quantile)} takes {needed} requests; the smallest point has {least}"
            )
    return tuple(notes)


def ratio(value: float) -> str:
    """`2.92x`: never a "% speed-up", which readers take for a ratio, an increase or a reduction."""
    return f"{number(value, 3)}x"


def reduction(before: float, after: float) -> str:
    """`-53.9 %`."""
    return f"{(after / before - 1) * 100:+.1f} %"


def objective_cell(point: LoadPoint) -> str:
    """The worst verdict; INVALID of a point whose figures are not those of the server."""
    if not point.is_valid:
        return "INVALID"
    found = {one.judgement for one in point.verdicts}
    return next((one for one in ("FAIL", UNDECIDED, "PASS") if one in found), NOTHING)


def input_counter(counts: RequestCounts) -> str:
    """Who counted the tokens of the prompts."""
    if not counts.input_counted:
        return NOTHING
    if not counts.input_by_tokenizer:
        return "server"
    return "tokenizer" if counts.input_by_tokenizer == counts.input_counted else "server and tokenizer"


def factor_names(points: Sequence[LoadPoint], *, only: bool = False) -> list[str]:
    """Of all points, in the order of the design; with `only` those that differ between points."""
    names = list(dict.fromkeys(name for point in points for name in point.factors))
    if not only or len(points) < 2:
        return names
    return [name for name in names if len({point.factors.get(name) for point in points}) > 1]


def factor_cell(point: LoadPoint, name: str) -> str:
    value: Factor = point.factors.get(name, NOTHING)
    return number(value) if isinstance(value, float) else str(value)


def load_sweeps(report: Report) -> dict[str, list[LoadPoint]]:
    """The points of each deployment and workload, which differ in their load only, by the other factors."""
    found: dict[str, list[LoadPoint]] = {}
    for point in report.points:
        names = [name for name in point.factors if name not in LOADS]
        found.setdefault(", ".join(factor_cell(point, name) for name in names), []).append(point)
    return found


def is_baseline(point: LoadPoint, report: Report) -> bool:
    return bool(report.baseline) and report.baseline in map(str, point.factors.values())


def baseline_of(point: LoadPoint, report: Report) -> LoadPoint | None:
    """The baseline's point with the most factors in common; of several the fastest. None: there is no baseline, or
    this is it.
    """
    if is_baseline(point, report):
        return None
    able = [one for one in report.points if is_baseline(one, report)]

    def likeness(one: LoadPoint) -> tuple[int, float]:
        same = sum(one.factors.get(name) == value for name, value in point.factors.items())
        return same, one.rate("requests_per_s")

    return max(able, key=likeness, default=None)


def exact_baseline_of(point: LoadPoint, report: Report) -> LoadPoint | None:
    """The baseline's point that differs in the variant only: every other factor is the same."""
    found = baseline_of(point, report)
    if found is None or {*found.factors} != {*point.factors}:
        return None
    different = [name for name, value in point.factors.items() if found.factors[name] != value]
    return found if len(different) == 1 else None
