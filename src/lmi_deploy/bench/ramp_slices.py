"""A ramp in parts: what was asked for, and what came of it. The figures of the whole point mix all its loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from lmi_deploy.bench.histogram import Histogram
from lmi_deploy.bench.load import Load
from lmi_deploy.bench.percentiles import percentile
from lmi_deploy.bench.report import Check, LoadPoint, RampSlice, Report
from lmi_deploy.bench.request_records import RequestRecord, RunResult
from lmi_deploy.bench.statistics import Window, in_flight, window_of
from lmi_deploy.bench.table_cells import NOTHING, UNDECIDED, milliseconds, number
from lmi_deploy.domain.report_table import ReportTable

OPEN_SLICES: Final = 10
MISSING: Final = 0.1
"""Fewer requests in flight in a step, as a share of its clients: the client could not keep up."""
SHORT: Final = 4
"""Fewer requests per client of a step are mostly start and end."""
WHOLE: Final = 0.95


def ramp_slices(run: RunResult, confidence: float) -> tuple[RampSlice, ...]:
    """Steps of a closed loop, ten equal parts of an open one; as far as the run came."""
    load, measured = run.settings.load, [one for one in run.records if not one.warmup]
    if load.ramp is None or run.warm_at is None or not measured:
        return ()
    count = load.ramp.steps if load.kind == "closed" else OPEN_SLICES
    length, end = load.ramp.seconds / count, window_of(measured).end
    found = []
    for place in range(count):
        begin = run.warm_at + place * length
        if begin >= end:
            break
        window = Window(begin=begin, end=min(begin + length, end))
        found.append(_slice(run, measured, window, confidence))
    return tuple(found)


def _slice(run: RunResult, measured: Sequence[RequestRecord], window: Window, confidence: float) -> RampSlice:
    assert run.warm_at is not None
    load, is_open = run.settings.load, run.settings.load.kind == "open"
    due = [one for one in measured if window.begin <= one.scheduled < window.end]
    times = Histogram.of([one.end - (one.scheduled if is_open else one.sent) for one in due if not one.error])
    begin = window.begin - run.warm_at
    slice_ = RampSlice(
        begin=begin,
        seconds=window.seconds,
        asked=load.mean_level(begin, begin + window.seconds),
        sent=len(due),
        completed=sum(not one.error and window.begin <= one.end < window.end for one in run.records),
        failed=sum(bool(one.error) for one in due),
        in_flight=in_flight(run.records, window),
    )
    if not times.n:
        return slice_
    p50, p90, p99 = (_supported(times, quantile, confidence) for quantile in (0.5, 0.9, 0.99))
    return replace(slice_, mean=times.mean, p50=p50, p90=p90, p99=p99, greatest=times.high)


def _supported(times: Histogram, quantile: float, confidence: float) -> float | None:
    found = percentile(times, quantile, confidence)
    return found.value if found and found.is_supported else None


def merged_slices(parts: Sequence[Sequence[RampSlice]]) -> tuple[RampSlice, ...]:
    """Of parts of one load at the same time. Percentiles of parts say nothing of those of the whole."""
    return tuple(_merged(slices) for slices in zip(*parts, strict=False))


def _merged(slices: Sequence[RampSlice]) -> RampSlice:
    names = ("asked", "sent", "completed", "failed", "in_flight")
    good = [(one.mean, one.sent - one.failed, one.greatest) for one in slices if one.mean is not None]
    weight = sum(count for _, count, _ in good)
    return replace(
        slices[0],
        **{name: sum(getattr(one, name) for one in slices) for name in names},
        mean=sum(mean * count for mean, count, _ in good) / weight if weight else None,
        p50=None,
        p90=None,
        p99=None,
        greatest=max((most for *_, most in good if most is not None), default=None),
    )


def ramp_checks(point: LoadPoint) -> Iterator[Check]:
    """Whether the load was that of the ramp, from its begin to its end."""
    load, slices = point.load, point.ramp
    assert load.ramp
    if not slices:
        text = "the run ended in its warm-up, before the ramp"
        yield Check(name="ramp", state="invalid", text=text)
        return
    reached = slices[-1].begin + slices[-1].seconds
    is_whole = reached >= WHOLE * load.ramp.seconds
    text = f"{reached:.3g} of {load.ramp.seconds:g} s, to {_asked(load, load.level(reached))}"
    yield Check(name="ramp", state="ok" if is_whole else "warning", text=text)
    if load.kind == "closed":
        # The last one ends with the run, and its requests with their responses.
        yield _kept_up(slices[:-1] or slices)


def _kept_up(slices: Iterable[RampSlice]) -> Check:
    """Little's law, step by step. More in flight than asked for are those of the step before, while clients leave."""
    worst = min(slices, key=lambda one: one.in_flight / one.asked)
    step = f"{worst.asked:g} in the step at {worst.begin:.3g} s"
    words = f"{worst.in_flight:.3g} requests in flight on average, of {step}"
    if worst.in_flight >= worst.asked * (1 - MISSING):
        return Check(name="littles_law", state="ok", text=words)
    if worst.sent < SHORT * worst.asked:
        text = f"{words}: {worst.sent} requests are too few to tell"
        return Check(name="littles_law", state="warning", text=text)
    return Check(name="littles_law", state="invalid", text=f"{words}: the client could not keep up")


def _asked(load: Load, level: float) -> str:
    return f"concurrency {level:g}" if load.kind == "closed" else f"{level:.4g} requests/s"


def ramp_tables(report: Report) -> Iterator[ReportTable]:
    """One for each ramp."""
    for point in report.points:
        if point.ramp:
            of = "concurrency" if point.load.kind == "closed" else "requests/s asked for"
            yield ReportTable(
                title=f"Ramp {point.name}: latency in milliseconds by the requests of each part",
                columns=(
                    *("from (s)", of, "sent", "failed", "in flight", "requests/s"),
                    *("mean", "p50", "p90", "p99", "max"),
                ),
                rows=tuple(map(_row, point.ramp)),
                notes=_notes(point),
            )


def _row(one: RampSlice) -> tuple[str, ...]:
    quantiles = (one.p50, one.p90, one.p99)
    return (
        number(one.begin, 3),
        number(one.asked, 3),
        str(one.sent),
        str(one.failed),
        number(one.in_flight, 3),
        number(one.completed / one.seconds),
        milliseconds(one.mean),
        *(
            NOTHING if one.mean is None else UNDECIDED if each is None else milliseconds(each)
            for each in quantiles
        ),
        milliseconds(one.greatest),
    )


def _notes(point: LoadPoint) -> tuple[str, ...]:
    most = max(point.ramp, key=lambda one: one.completed / one.seconds)
    rate = f"most responses: {number(most.completed / most.seconds)}/s, at {_asked(point.load, most.asked)}"
    return (rate, "the other tables have the whole ramp as one point: a mixture of all its loads")
