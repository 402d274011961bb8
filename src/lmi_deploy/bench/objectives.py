"""Objectives: a metric, a statistic of it and a limit, judged by what the sample can show.

PASS and FAIL are both claims at the confidence of the report. Whatever the sample cannot show is UNDECIDED.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lmi_deploy.bench.percentiles import needed_count, percentile, percentile_name
from lmi_deploy.bench.probability import binomial_at_most, t_quantile
from lmi_deploy.bench.report import LoadPoint, Summary, Verdict
from lmi_deploy.bench.statistics import percentile_inflation
from lmi_deploy.errors import UsageRefused

TIMES: Final = ("e2e", "ttft", "itl", "tpot", "queue")
RATES: Final = (
    *("requests_per_s", "output_tokens_per_s", "input_tokens_per_s", "items_per_s", "goodput_per_s"),
    "output_tokens_per_s_user",
)
_FORM: Final = re.compile(
    r"(?:(?P<metric>e2e|ttft|itl|tpot|queue)_)?(?P<statistic>mean|p\d{1,2}(?:\.\d+)?)_(?P<unit>ms|s)"
)
_EXAMPLES: Final = "p99_ms, ttft_p95_ms, mean_ms, error_rate, output_tokens_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """`quantile` is None of a mean, a rate, or the error rate. Times are in seconds; a rate is a minimum, all others
    are a maximum.
    """

    name: str
    metric: str
    quantile: float | None
    limit: float

    @property
    def words(self) -> str:
        sign = ">=" if self.metric in RATES else "<="
        return f"{self.name} {sign} {self._limit:.6g}"

    @property
    def _limit(self) -> float:
        return self.limit * 1000 if self.name.endswith("_ms") else self.limit


def objectives_of(pairs: Iterable[tuple[str, str | float]]) -> tuple[Objective, ...]:
    """Those of the recipe's `bench.objectives`. UsageRefused."""
    try:
        return tuple(parse_objective(name, float(limit)) for name, limit in pairs)
    except ValueError as reason:
        raise UsageRefused(f"bench.objectives: {reason}", hint="for example p99_ms: 50") from None


def parse_objective(name: str, limit: float) -> Objective:
    """`p99_ms: 50`, `ttft_p95_ms: 200`, `mean_s: 2`, `error_rate: 0.001`, `items_per_s: 100`. ValueError says what is
    possible.
    """
    if not (limit >= 0 and math.isfinite(limit)):
        raise ValueError(f"{name}: {limit:g} is no limit: it must be a number of at least 0")
    if name == "error_rate":
        if limit >= 1:
            raise ValueError(f"error_rate: {limit:g} is not below 1: it is a share of the requests")
        return Objective(name=name, metric=name, quantile=None, limit=limit)
    if name in RATES:
        return Objective(name=name, metric=name, quantile=None, limit=limit)
    form = _FORM.fullmatch(name)
    if form is None:
        raise ValueError(f"{name} is no objective: the name has the form of {_EXAMPLES}")
    statistic = form["statistic"]
    quantile = None if statistic == "mean" else float(statistic[1:]) / 100
    if quantile == 0:
        raise ValueError(f"{name}: there is no p0")
    seconds = limit / 1000 if form["unit"] == "ms" else limit
    return Objective(name=name, metric=form["metric"] or "e2e", quantile=quantile, limit=seconds)


def read_objective(words: str) -> Objective:
    """Of its `words`, as a report keeps it."""
    name, _, limit = words.replace(">=", "<=").partition("<=")
    return parse_objective(name.strip(), float(limit))


def judge(objective: Objective, point: LoadPoint, confidence: float) -> Verdict:
    """An invalid point, or figure, decides nothing."""
    if reason := point.why_invalid(objective.metric):
        what = f"{objective.metric} is" if point.is_valid else "the point is"
        return _verdict(objective, None, f"{what} INVALID: {reason}")
    if objective.metric == "error_rate":
        return _judge_errors(objective, point, confidence)
    if objective.metric in RATES and objective.metric != "output_tokens_per_s_user":
        return _judge_rate(objective, point)
    summary = point.metrics.get(objective.metric)
    if summary is None:
        return _verdict(objective, None, f"{objective.metric} was not measured")
    if objective.quantile is None:
        return _judge_mean(objective, summary, confidence)
    return _judge_percentile(objective, summary, failed=point.counts.failed, confidence=confidence)


def _judge_percentile(objective: Objective, summary: Summary, *, failed: int, confidence: float) -> Verdict:
    """A failed request was not answered in time: it counts as above every limit."""
    assert objective.quantile is not None
    found = percentile(
        summary.sample(),
        objective.quantile,
        confidence,
        beyond=failed,
        inflation=percentile_inflation(objective.metric, summary.inflation),
    )
    assert found
    what = "gaps" if objective.metric == "itl" else "requests"
    among = f"{summary.n + failed} {what}" + (f", {failed} of them failed" if failed else "")
    name = percentile_name(objective.quantile)
    if found.high is not None and found.high <= objective.limit:
        return _verdict(objective, True, f"{name} <= {_time(found.high)} at {confidence:.0%} ({among})")
    if found.low is not None and found.low > objective.limit:
        return _verdict(objective, False, f"{name} > {_time(found.low)} at {confidence:.0%} ({among})")
    needed = needed_count(objective.quantile, confidence)
    if summary.n + failed < needed:
        return _verdict(objective, None, f"{among}: {needed} are needed")
    high = "no bound" if found.high is None else _time(found.high)
    low = "no bound" if found.low is None else _time(found.low)
    return _verdict(objective, None, f"{name} is between {low} and {high} ({among}): more requests decide")


def _judge_mean(objective: Objective, summary: Summary, confidence: float) -> Verdict:
    if summary.error is None:
        return _verdict(objective, None, f"a mean of {summary.n} requests has no interval")
    half = t_quantile(confidence, summary.n / summary.inflation - 1) * summary.error
    low, high = summary.mean - half, summary.mean + half
    unit = (lambda value: f"{value:.4g}") if objective.metric in RATES else _time
    words = f"mean {unit(summary.mean)}, from {unit(low)} to {unit(high)} ({summary.n} requests)"
    if objective.metric in RATES:
        low, high = -high, -low
    limit = -objective.limit if objective.metric in RATES else objective.limit
    return _verdict(objective, True if high <= limit else False if low > limit else None, words)


def _judge_rate(objective: Objective, point: LoadPoint) -> Verdict:
    rate = point.rates.get(objective.metric)
    if rate is None:
        return _verdict(objective, None, f"{objective.metric} was not measured")
    if rate.interval is None:
        return _verdict(objective, None, f"{rate.value:.4g}/s, of a run too short for an interval")
    low, high = rate.interval
    words = f"{rate.value:.4g}/s, from {low:.4g} to {high:.4g}"
    met = True if low >= objective.limit else False if high < objective.limit else None
    return _verdict(objective, met, words)


def _judge_errors(objective: Objective, point: LoadPoint, confidence: float) -> Verdict:
    """Exact (Clopper and Pearson): without any error, 0.1 % still takes 2995 requests."""
    n, failed = point.counts.succeeded + point.counts.failed, point.counts.failed
    words = f"{failed} of {n} requests failed"
    if n and binomial_at_most(failed, n, objective.limit) <= 1 - confidence:
        return _verdict(objective, True, words)
    if failed and 1 - binomial_at_most(failed - 1, n, objective.limit) <= 1 - confidence:
        return _verdict(objective, False, words)
    if failed == 0 and objective.limit > 0:
        words += f": {needed_count(1 - objective.limit, confidence)} are needed"
    return _verdict(objective, None, words)


def _verdict(objective: Objective, met: bool | None, text: str) -> Verdict:  # noqa: FBT001
    return Verdict(
        objective=objective.words,
        judgement="UNDECIDED" if met is None else "PASS" if met else "FAIL",
        text=text,
    )


def _time(seconds: float) -> str:
    if math.isinf(seconds):
        return "any limit"
    return f"{seconds * 1000:.4g} ms" if seconds < 10 else f"{seconds:.4g} s"
