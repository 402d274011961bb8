"""From the requests of one point to its figures.

An open loop sends by a schedule, and the latency of a request is counted from its place in the schedule: a server (or
a client) that stops for a second delays all requests of that second, and each of them shows it. A closed loop waits
for the server before it sends, so its latencies are those of the requests that it happened to send.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Final

from lmi_deploy.bench.histogram import Histogram
from lmi_deploy.bench.percentiles import STANDARD, percentile
from lmi_deploy.bench.probability import t_quantile
from lmi_deploy.bench.report import PackedHistogram, PercentileFigure, Rate, RequestCounts, Summary
from lmi_deploy.bench.request_records import RequestRecord

BATCHES: Final = 20
PIECES: Final = 20
"""Of the window, for the interval of a rate."""
METRICS: Final = ("e2e", "ttft", "tpot", "queue", "output_tokens_per_s_user")
"""One value per request; beside them `itl`, the gaps inside of streams."""
_LEAST_BATCH: Final = 10
"""Requests in a batch: below it, batches say nothing about dependence."""
_LEAST_PIECE: Final = 5
"""Requests in a piece of the window, for the interval of a rate."""


def summarize(metric: str, values: Sequence[float], confidence: float) -> Summary | None:
    """Of values in the order of their requests; None if there are none."""
    sample = Histogram.of(values)
    return summary_of(metric, sample, confidence, inflation=_inflation(values, sample)) if sample.n else None


def percentile_inflation(metric: str, inflation: float) -> float:
    """For the bounds of percentiles: those of requests are taken as independent, the gaps inside of streams are not."""
    return inflation if metric == "itl" else 1.0


def summary_of(metric: str, sample: Histogram, confidence: float, *, inflation: float = 1.0) -> Summary:
    """Of a sample that is not empty."""
    n = sample.n
    deviation = sample.deviation if n > 1 else None
    error = deviation * math.sqrt(inflation / n) if deviation is not None else None
    half = (
        t_quantile(0.5 + confidence / 2, n / inflation - 1) * error
        if error is not None and n / inflation > 1
        else None
    )
    return Summary(
        n=n,
        mean=sample.mean,
        least=sample.low,
        greatest=sample.high,
        deviation=deviation,
        error=error,
        interval=(sample.mean - half, sample.mean + half) if half is not None else None,
        inflation=inflation,
        percentiles=tuple(_figure(metric, sample, quantile, confidence, inflation) for quantile in STANDARD),
        histogram=_packed(sample),
    )


def _figure(
    metric: str, sample: Histogram, quantile: float, confidence: float, inflation: float
) -> PercentileFigure:
    found = percentile(sample, quantile, confidence, inflation=percentile_inflation(metric, inflation))
    assert found
    return PercentileFigure(
        quantile=quantile,
        value=found.value if found.is_supported else None,
        low=found.low,
        high=found.high,
        needed=found.needed,
    )


def _packed(sample: Histogram) -> PackedHistogram:
    numbers = sorted(sample.counts)
    return PackedHistogram(
        buckets=tuple(numbers),
        counts=tuple(sample.counts[number] for number in numbers),
        total=sample.total,
        squares=sample.squares,
        low=sample.low,
        high=sample.high,
    )


def _inflation(values: Sequence[float], sample: Histogram) -> float:
    """By the means of 20 batches in the order of the requests: if each depends on the one before it, the batches
    differ more than batches of independent values would.
    """
    size = len(values) // BATCHES
    if size < _LEAST_BATCH or not sample.squares:
        return 1.0
    means = [math.fsum(values[i * size : (i + 1) * size]) / size for i in range(BATCHES)]
    middle = math.fsum(means) / BATCHES
    between = math.fsum((mean - middle) ** 2 for mean in means) / (BATCHES - 1)
    return min(max(1.0, between * size / sample.deviation**2), float(size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time in which load was kept up, on the monotonic clock: from the first measured request until the last was
    sent. What completes after it belongs to the latencies, and to no rate.
    """

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return max(self.end - self.begin, 1e-9)


def window_of(records: Sequence[RequestRecord]) -> Window:
    """Of measured requests. Of a single request, or a burst, until the last response."""
    begin, sent = min(one.sent for one in records), max(one.sent for one in records)
    end = max(one.end for one in records)
    return Window(begin=begin, end=sent if sent - begin > (end - sent) and len(records) > 1 else end)


def latencies(records: Iterable[RequestRecord], *, is_open: bool) -> dict[str, list[float]]:
    """By metric, of requests that succeeded, in their order. `itl` are the gaps of all streams."""
    found: dict[str, list[float]] = {name: [] for name in (*METRICS, "itl")}
    for one in records:
        begin = one.scheduled if is_open else one.sent
        found["e2e"].append(one.end - begin)
        if is_open:
            found["queue"].append(one.sent - one.scheduled)
        if one.arrivals:
            found["ttft"].append(one.arrivals[0] - begin)
            found["itl"].extend(map(sub, one.arrivals[1:], one.arrivals))
            if one.output_tokens is not None and one.output_tokens > 1:
                found["tpot"].append((one.arrivals[-1] - one.arrivals[0]) / (one.output_tokens - 1))
        if one.output_tokens and one.end > begin:
            found["output_tokens_per_s_user"].append(one.output_tokens / (one.end - begin))
    return {name: values for name, values in found.items() if values}


def rates(
    records: Sequence[RequestRecord],
    window: Window,
    confidence: float,
    *,
    good: Callable[[RequestRecord], bool] | None,
) -> dict[str, Rate]:
    """Of responses that arrived inside the window; goodput of those that are `good`. No rate of input tokens if some
    requests have no count of them: it would be too low.
    """
    inside = [one for one in records if not one.error and window.begin <= one.end <= window.end]
    counted: dict[str, list[tuple[float, float]]] = {
        "requests_per_s": [(one.end, 1) for one in inside],
        "items_per_s": [(one.end, one.items) for one in inside],
        "input_tokens_per_s": [(one.end, one.input_tokens or 0) for one in inside],
        "output_tokens_per_s": [(one.end, one.output_tokens or 0) for one in inside],
    }
    if any(one.input_tokens is None for one in inside):
        del counted["input_tokens_per_s"]
    if good:
        counted["goodput_per_s"] = [(one.end, 1) for one in inside if good(one)]
    return {
        name: _rate(events, window, confidence)
        for name, events in counted.items()
        if name in ("requests_per_s", "goodput_per_s") or any(weight for _, weight in events)
    }


def _rate(events: Sequence[tuple[float, float]], window: Window, confidence: float) -> Rate:
    """The interval is that of the mean over equal pieces of the window."""
    value = math.fsum(weight for _, weight in events) / window.seconds
    if len(events) < PIECES * _LEAST_PIECE:
        return Rate(value=value)
    pieces, length = [0.0] * PIECES, window.seconds / PIECES
    for at, weight in events:
        pieces[min(int((at - window.begin) / length), PIECES - 1)] += weight / length
    middle = math.fsum(pieces) / PIECES
    spread = math.sqrt(math.fsum((piece - middle) ** 2 for piece in pieces) / (PIECES - 1) / PIECES)
    half = t_quantile(0.5 + confidence / 2, PIECES - 1) * spread
    return Rate(value=value, interval=(max(0.0, value - half), value + half))


def in_flight(records: Iterable[RequestRecord], window: Window) -> float:
    """The mean over the window of how many requests had been sent and not answered; failed ones, too."""
    overlap = (min(one.end, window.end) - max(one.sent, window.begin) for one in records)
    return math.fsum(part for part in overlap if part > 0) / window.seconds


def request_counts(records: Sequence[RequestRecord]) -> RequestCounts:
    measured = [one for one in records if not one.warmup]
    good = [one for one in measured if not one.error]
    checked = [one for one in good if one.asked_tokens is not None and one.output_tokens is not None]
    known = [one for one in good if one.input_tokens is not None]
    compared = [one for one in known if one.asked_input_tokens and one.input_counted_by == "server"]
    return RequestCounts(
        sent=len(measured),
        succeeded=len(good),
        failed=len(measured) - len(good),
        errors=dict(Counter(one.error for one in measured if one.error)),
        truncated=sum(one.truncated for one in measured),
        warmup=len(records) - len(measured),
        input_tokens=sum(one.input_tokens or 0 for one in known),
        input_counted=len(known),
        input_by_tokenizer=sum(one.input_counted_by == "tokenizer" for one in known),
        input_checked=len(compared),
        input_asked=sum(one.asked_input_tokens or 0 for one in compared),
        input_found=sum(one.input_tokens or 0 for one in compared),
        output_tokens=sum(one.output_tokens or 0 for one in good),
        items=sum(one.items for one in good),
        wrong_length=sum(one.asked_tokens != one.output_tokens for one in checked),
        length_checked=len(checked),
    )
