"""Two reports, point by point: what changed, by how much, and whether that can be chance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from lmi_deploy.bench.consistency_checks import check_same_load, row_of
from lmi_deploy.bench.percentiles import percentile, percentile_name
from lmi_deploy.bench.probability import t_quantile
from lmi_deploy.bench.report import Judgement, LoadPoint, Rate, Report, Summary, Verdict
from lmi_deploy.bench.significance import Effect, Measured, holm, mann_whitney, ratio_of_means
from lmi_deploy.bench.statistics import PIECES, percentile_inflation
from lmi_deploy.bench.table_cells import NOTHING, number
from lmi_deploy.domain.report_table import ReportTable
from lmi_deploy.errors import UsageRefused

Direction = Literal["better", "worse", "no difference shown", "not comparable"]
COMPARED: Final = ("e2e", "ttft", "itl", "tpot")
COMPARED_RATES: Final = ("requests_per_s", "output_tokens_per_s", "items_per_s")
QUANTILES: Final = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """One figure in both reports. `effect` is after / before with its interval; `p_value` is corrected for the number
    of tests in the comparison, None if there is no test of this figure beside its interval.
    """

    point: str
    metric: str
    statistic: str
    before: float
    after: float
    effect: Effect | None
    p_value: float | None
    superiority: float | None
    lower_is_better: bool
    confidence: float

    @property
    def direction(self) -> Direction:
        """A difference is shown if the interval excludes 1, and the test, where there is one, agrees."""
        if self.effect is None:
            return "not comparable"
        is_up, is_down = self.effect.low > 1, self.effect.high < 1
        is_chance = self.p_value is not None and self.p_value > 1 - self.confidence
        if is_chance or not (is_up or is_down):
            return "no difference shown"
        return "worse" if is_up == self.lower_is_better else "better"

    def regression(self, threshold: float) -> Judgement:
        """PASS if the figure is at most `threshold` (0.05: 5 %) worse, at the confidence of the comparison."""
        if self.effect is None:
            return "UNDECIDED"
        low, high = self.effect.low, self.effect.high
        if not self.lower_is_better:
            # Of a rate the loss counts: 5 % worse is a ratio of 0.95.
            low, high = 2 - high, 2 - low
        return "PASS" if high <= 1 + threshold else "FAIL" if low > 1 + threshold else "UNDECIDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    before: str
    after: str
    confidence: float
    changes: tuple[FigureChange, ...]
    warnings: tuple[str, ...]

    def verdicts(self, threshold: float, metrics: Sequence[str]) -> tuple[Verdict, ...]:
        """Of the named figures (`e2e p99`), or of all means and rates."""
        return tuple(
            Verdict(
                objective=f"{change.point}: {change.metric} {change.statistic} at most {threshold:.3g} worse",
                judgement=change.regression(threshold),
                text=change_words(change),
            )
            for change in self.changes
            if f"{change.metric} {change.statistic}" in metrics
            or (not metrics and change.statistic == "mean")
        )


def change_words(change: FigureChange) -> str:
    """`1.23 -> 1.31, +6.5 % (+4.1 to +9.0 %)`."""
    words = f"{change.before:.4g} -> {change.after:.4g}"
    if change.effect is None:
        return words
    return f"{words}, {percent(change.effect.ratio)} ({percent(change.effect.low)} to {percent(change.effect.high)})"


def percent(ratio: float) -> str:
    """A ratio as a change: 1.065 is +6.5 %."""
    return "no bound" if math.isinf(ratio) else f"{(ratio - 1) * 100:+.1f} %"


def comparison_table(found: Comparison) -> ReportTable:
    """A line a figure; times in milliseconds."""
    return ReportTable(
        title=f"{found.after} against {found.before}",
        columns=("point", "figure", "before", "after", "change", "from", "to", "p", "conclusion"),
        rows=tuple(_cells(change) for change in found.changes),
        notes=(
            f"from, to: the change at {found.confidence:.0%} confidence; p: Mann-Whitney on all requests, corrected "
            "(Holm) for the number of tests",
            *found.warnings,
        ),
    )


def _cells(change: FigureChange) -> tuple[str, ...]:
    unit = 1000.0 if change.metric in COMPARED else 1.0
    effect = change.effect
    return (
        change.point,
        f"{change.metric} {change.statistic}" if change.metric in COMPARED else change.metric,
        number(change.before * unit),
        number(change.after * unit),
        percent(change.after / change.before),
        percent(effect.low) if effect else NOTHING,
        percent(effect.high) if effect else NOTHING,
        NOTHING if change.p_value is None else f"{change.p_value:.2g}",
        change.direction,
    )


def compare(before: Report, after: Report, *, names: tuple[str, str]) -> Comparison:
    """Points are paired by their names: the factors and the load. UsageRefused if no point is in both."""
    confidence = max(before.confidence, after.confidence)
    others = {point.name: point for point in after.points}
    pairs = [(point, others[point.name]) for point in before.points if point.name in others]
    if not pairs and len(before.points) == len(after.points) == 1:
        pairs = [(before.points[0], after.points[0])]
    if not pairs:
        of = ", ".join(point.name for point in before.points[:3])
        against = ", ".join(point.name for point in after.points[:3])
        raise UsageRefused(
            f"{names[0]} and {names[1]} have no point in common: {of} against {against}",
            hint="compare two runs of the same `bench:` section",
        )
    changes = [change for pair in pairs for change in _judged_changes(*pair, confidence)]
    return Comparison(
        before=names[0],
        after=names[1],
        confidence=confidence,
        changes=tuple(_corrected(changes)),
        warnings=tuple(_warnings(before, after, pairs)),
    )


def _judged_changes(before: LoadPoint, after: LoadPoint, confidence: float) -> list[FigureChange]:
    """Without effects where one of the points, or this figure of it, is INVALID: it is not that of the server."""
    return [
        replace(change, effect=None, p_value=None, superiority=None)
        if before.why_invalid(change.metric) or after.why_invalid(change.metric)
        else change
        for change in _changes(before, after, confidence)
    ]


def _changes(before: LoadPoint, after: LoadPoint, confidence: float) -> Iterator[FigureChange]:
    for metric in COMPARED:
        first, second = before.metrics.get(metric), after.metrics.get(metric)
        if first and second:
            blank = _blank(before.name, metric, confidence)
            yield _mean_change(blank, first, second)
            yield from _percentile_changes(blank, first, second)
    for name in COMPARED_RATES:
        if before.rate(name) > 0 and after.rate(name) > 0:
            blank = replace(_blank(before.name, name, confidence), lower_is_better=False)
            yield _rate_change(blank, before.rates[name], after.rates[name])


def _blank(point: str, metric: str, confidence: float) -> FigureChange:
    return FigureChange(
        point=point,
        metric=metric,
        statistic="mean",
        before=math.nan,
        after=math.nan,
        effect=None,
        p_value=None,
        superiority=None,
        lower_is_better=True,
        confidence=confidence,
    )


def _mean_change(blank: FigureChange, before: Summary, after: Summary) -> FigureChange:
    inflation = (before.inflation, after.inflation)
    test = mann_whitney(before.sample(), after.sample(), inflation=inflation)
    effect = None
    if before.error is not None and after.error is not None:
        effect = ratio_of_means(_measured(before), _measured(after), blank.confidence)
    return replace(
        blank,
        before=before.mean,
        after=after.mean,
        effect=effect,
        p_value=test.p_value if test else None,
        superiority=test.superiority if test else None,
    )


def _measured(summary: Summary) -> Measured:
    assert summary.error is not None
    return Measured(mean=summary.mean, error=summary.error, n=summary.n / summary.inflation)


def _percentile_changes(blank: FigureChange, before: Summary, after: Summary) -> Iterator[FigureChange]:
    """Only percentiles that both samples support. The interval is the widest that the bounds of both allow: each of
    the four bounds gets a quarter of the error.
    """
    each = 1 - (1 - blank.confidence) / 4
    for quantile in QUANTILES:
        first, second = (
            percentile(
                one.sample(), quantile, each, inflation=percentile_inflation(blank.metric, one.inflation)
            )
            for one in (before, after)
        )
        shown = before.percentile(quantile), after.percentile(quantile)
        if first is None or second is None or None in shown or not first.value:
            continue
        effect = None
        if first.low and first.high and second.low is not None and second.high is not None:
            ratio = second.value / first.value
            effect = Effect(ratio=ratio, low=second.low / first.high, high=second.high / first.low)
        name = percentile_name(quantile)
        yield replace(blank, statistic=name, before=first.value, after=second.value, effect=effect)


def _rate_change(blank: FigureChange, before: Rate, after: Rate) -> FigureChange:
    effect = None
    if before.interval and after.interval:
        pair = [_measured_rate(rate, blank.confidence) for rate in (before, after)]
        effect = ratio_of_means(pair[0], pair[1], blank.confidence)
    return replace(blank, before=before.value, after=after.value, effect=effect)


def _measured_rate(rate: Rate, confidence: float) -> Measured:
    """Its interval is that of Student's t over the pieces of the window."""
    assert rate.interval
    half = (rate.interval[1] - rate.interval[0]) / 2
    return Measured(mean=rate.value, error=half / t_quantile(0.5 + confidence / 2, PIECES - 1), n=PIECES)


def _corrected(changes: Sequence[FigureChange]) -> Iterator[FigureChange]:
    corrected = iter(holm([change.p_value for change in changes if change.p_value is not None]))
    for change in changes:
        yield change if change.p_value is None else replace(change, p_value=next(corrected))


def _warnings(before: Report, after: Report, pairs: Sequence[tuple[LoadPoint, LoadPoint]]) -> Iterator[str]:
    for first, second in pairs:
        for point, side in ((first, "before"), (second, "after")):
            for check in point.checks:
                if check.state == "invalid":
                    yield f"{point.name}, {side}: INVALID: {check.text}"
        load = check_same_load([replace(row_of(first), name="before"), replace(row_of(second), name="after")])
        if load and load.state != "ok":
            yield f"{first.name}: {load.text}"
    left = {point.name for point in (*before.points, *after.points)} - {
        point.name for pair in pairs for point in pair
    }
    if left:
        yield f"in one report only: {', '.join(sorted(left))}"
    if before.provenance.machine != after.provenance.machine:
        yield f"measured from different machines: {before.provenance.machine}, {after.provenance.machine}"
