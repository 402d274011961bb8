"""A point of a report from the run that measured it, and points that were measured in parts as one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from itertools import accumulate
from statistics import median, stdev
from typing import Final

from lmi_deploy.bench.consistency_checks import point_checks
from lmi_deploy.bench.histogram import Histogram
from lmi_deploy.bench.load import Load
from lmi_deploy.bench.objectives import Objective, judge
from lmi_deploy.bench.probability import t_quantile
from lmi_deploy.bench.ramp_slices import merged_slices, ramp_checks, ramp_slices
from lmi_deploy.bench.report import ClientFigures, Factor, LoadPoint, Rate, RequestCounts, Summary, TimeSlice
from lmi_deploy.bench.request_records import RequestRecord, RunResult
from lmi_deploy.bench.statistics import (
    Window,
    in_flight,
    latencies,
    rates,
    request_counts,
    summarize,
    summary_of,
    window_of,
)

SLICES: Final = 60
HEAT_UNIT: Final = 0.001
HEAT_CLASSES: Final = 4
GOODPUT_TIMES: Final = ("e2e", "ttft", "tpot")


def point_of(run: RunResult, *, confidence: float = 0.95, objectives: Sequence[Objective] = ()) -> LoadPoint:
    """Figures, checks and verdicts of a run; also of one in which nothing succeeded."""
    settings, measured = run.settings, [one for one in run.records if not one.warmup]
    is_open = settings.load.kind == "open"
    window = window_of(measured) if measured else Window(begin=0, end=0)
    good = [one for one in measured if not one.error]
    times = latencies(good, is_open=is_open)
    metrics = {name: summarize(name, values, confidence) for name, values in times.items()}
    point = LoadPoint(
        name=point_name(settings.factors, settings.load),
        factors=settings.factors,
        load=settings.load,
        billed=settings.billed,
        began=run.began,
        seconds=window.end - window.begin,
        counts=request_counts(run.records),
        metrics={name: summary for name, summary in metrics.items() if summary},
        rates=rates(measured, window, confidence, good=_goodness(objectives, is_open=is_open)),
        # Requests of the warm-up are in flight, too, until their responses: without them a short run looks slow.
        in_flight=in_flight(run.records, window) if measured else 0.0,
        client=run.client,
        timeline=timeline(measured, is_open=is_open) if measured else (),
        ramp=ramp_slices(run, confidence),
        cloudwatch=run.cloudwatch,
        settings=settings.settings,
    )
    return judged(point, objectives, confidence)


def judged(point: LoadPoint, objectives: Sequence[Objective], confidence: float) -> LoadPoint:
    """With its checks, then its verdicts: an invalid point meets no objective."""
    checks = point_checks(point, confidence)
    if point.load.ramp and point.counts.sent:
        checks += tuple(ramp_checks(point))
    point = replace(point, checks=checks)
    return replace(point, verdicts=tuple(judge(one, point, confidence) for one in objectives))


def point_name(factors: Mapping[str, Factor], load: Load) -> str:
    """`trt, c=2`: two reports of the same design have the same names."""
    parts = [str(value) if isinstance(value, str) else f"{name}={value}" for name, value in factors.items()]
    here = {"concurrency", "rate"} & {*factors}
    if not here:
        parts.append(load.brief)
    return ", ".join(parts)


def _goodness(objectives: Sequence[Objective], *, is_open: bool) -> Callable[[RequestRecord], bool] | None:
    """Goodput counts the requests that stay within the limit of every objective on a time of one request."""
    limits: dict[str, float] = {}
    for one in objectives:
        if one.metric in GOODPUT_TIMES:
            limits[one.metric] = min(one.limit, limits.get(one.metric, math.inf))

    def is_good(record: RequestRecord) -> bool:
        times = latencies([record], is_open=is_open)
        return all(times.get(metric, [0.0])[0] <= limit for metric, limit in limits.items())

    return is_good if limits else None


def timeline(records: Sequence[RequestRecord], *, is_open: bool) -> tuple[TimeSlice, ...]:
    """In 60 equal parts from the first request to the last response; a request counts where its response arrived."""
    begin, end = min(one.sent for one in records), max(one.end for one in records)
    length = max((end - begin) / SLICES, 1e-9)
    parts: list[list[RequestRecord]] = [[] for _ in range(SLICES)]
    flying, longer = [0.0] * SLICES, [0] * (SLICES + 1)
    for one in records:
        first, last = (min(int((at - begin) / length), SLICES - 1) for at in (one.sent, one.end))
        parts[last].append(one)
        if first == last:
            flying[first] += (one.end - one.sent) / length
            continue
        flying[first] += first + 1 - (one.sent - begin) / length
        flying[last] += (one.end - begin) / length - last
        # It was in flight during all of the parts between them.
        longer[first + 1] += 1
        longer[last] -= 1
    flying = [part + whole for part, whole in zip(flying, accumulate(longer), strict=False)]
    return tuple(
        _slice(part, number * length, flying[number], is_open=is_open) for number, part in enumerate(parts)
    )


def _slice(part: Sequence[RequestRecord], begin: float, flying: float, *, is_open: bool) -> TimeSlice:
    good = [one for one in part if not one.error]
    times = [one.end - (one.scheduled if is_open else one.sent) for one in good]
    heat = Counter(
        math.floor(math.log2(max(time, HEAT_UNIT / 16) / HEAT_UNIT) * HEAT_CLASSES) for time in times
    )
    return TimeSlice(
        begin=begin,
        completed=len(good),
        failed=len(part) - len(good),
        mean=math.fsum(times) / len(times) if times else None,
        p50=median(times) if times else None,
        greatest=max(times, default=None),
        in_flight=flying,
        output_tokens=sum(one.output_tokens or 0 for one in good),
        heat=tuple(sorted(heat.items())),
    )


def merged(
    parts: Sequence[LoadPoint], *, confidence: float = 0.95, objectives: Sequence[Objective] = ()
) -> LoadPoint:
    """Parts of one load that several machines measured at the same time, as one point: samples merged, rates and
    concurrency added. Its client is the worst of theirs, and it has no time line.
    """
    first, *others = parts
    if not others:
        return first
    names = [name for name in first.metrics if all(name in part.metrics for part in parts)]
    point = replace(
        first,
        load=_summed_load([part.load for part in parts]),
        seconds=max(part.seconds for part in parts),
        counts=_summed_counts([part.counts for part in parts]),
        metrics={
            name: _merged_summary(name, [part.metrics[name] for part in parts], confidence) for name in names
        },
        rates={name: _summed_rate([part.rates.get(name) for part in parts]) for name in first.rates},
        in_flight=math.fsum(part.in_flight for part in parts),
        client=worst_client([part.client for part in parts]),
        timeline=(),
        ramp=merged_slices([part.ramp for part in parts]),
    )
    return judged(replace(point, name=point_name(point.factors, point.load)), objectives, confidence)


def _summed_load(loads: Sequence[Load]) -> Load:
    first = loads[0]
    if first.ramp:
        first = replace(first, ramp=replace(first.ramp, to=sum(load.ramp.to for load in loads if load.ramp)))
    if first.kind == "closed":
        return replace(first, concurrency=sum(load.concurrency or 0 for load in loads))
    given = [load.rate for load in loads if load.rate is not None]
    return replace(first, rate=math.fsum(given) if given else None)


def _summed_counts(counts: Sequence[RequestCounts]) -> RequestCounts:
    names = [field.name for field in fields(RequestCounts) if field.name != "errors"]
    errors: Counter[str] = Counter()
    for one in counts:
        errors.update(one.errors)
    return replace(
        counts[0], errors=dict(errors), **{name: sum(getattr(c, name) for c in counts) for name in names}
    )


def _merged_summary(metric: str, summaries: Sequence[Summary], confidence: float) -> Summary:
    """The variances of the parts' means add up, weighted by their size."""
    sample = reduce(Histogram.merged, (one.sample() for one in summaries))
    dependent = math.fsum(one.n / sample.n * one.inflation for one in summaries)
    return summary_of(metric, sample, confidence, inflation=dependent)


def _summed_rate(found: Sequence[Rate | None]) -> Rate:
    """Of independent parts the half-widths of the intervals add up as squares."""
    present = [rate for rate in found if rate]
    value = math.fsum(rate.value for rate in present)
    if not all(rate.interval for rate in present):
        return Rate(value=value)
    half = math.hypot(*((rate.interval[1] - rate.value) for rate in present if rate.interval))
    return Rate(value=value, interval=(max(0.0, value - half), value + half))


def worst_client(clients: Sequence[ClientFigures]) -> ClientFigures:
    """Of clients that measured together: if one of them did not keep up, the figures are not of the server."""

    def most(name: str) -> float | None:
        found = [getattr(client, name) for client in clients if getattr(client, name) is not None]
        return max(found, key=abs, default=None)

    names = [one.name for one in fields(ClientFigures) if one.name not in ("endpoint_changed", "resent")]
    counts = [client.resent for client in clients if client.resent is not None]
    changed = next((client.endpoint_changed for client in clients if client.endpoint_changed), "")
    figures = {name: most(name) for name in names}
    return replace(clients[0], endpoint_changed=changed, resent=sum(counts) if counts else None, **figures)


def pooled(parts: Sequence[LoadPoint], *, confidence: float = 0.95) -> LoadPoint:
    """Repeats of one load, one after the other, as one point: samples merged, rates and requests in flight averaged by
    time. The interval of a rate is that of the repeats' mean: what differs between repeats is in it.
    """
    first, *others = parts
    if not others:
        return first
    seconds = math.fsum(part.seconds for part in parts)
    names = [name for name in first.metrics if all(name in part.metrics for part in parts)]
    return replace(
        first,
        seconds=seconds,
        counts=_summed_counts([part.counts for part in parts]),
        metrics={
            name: _merged_summary(name, [part.metrics[name] for part in parts], confidence) for name in names
        },
        rates={
            name: _mean_rate([(part.rate(name), part.seconds) for part in parts], confidence)
            for name in first.rates
        },
        in_flight=math.fsum(part.in_flight * part.seconds for part in parts) / seconds,
        client=worst_client([part.client for part in parts]),
        timeline=(),
        ramp=(),
        cloudwatch={},
    )


def _mean_rate(found: Sequence[tuple[float, float]], confidence: float) -> Rate:
    """Of rates, each with its time."""
    value = math.fsum(rate * seconds for rate, seconds in found) / math.fsum(seconds for _, seconds in found)
    half = t_quantile(0.5 + confidence / 2, len(found) - 1) * stdev(rate for rate, _ in found)
    half /= math.sqrt(len(found))
    return Rate(value=value, interval=(max(0.0, value - half), value + half))
