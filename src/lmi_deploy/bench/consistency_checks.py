"""Consistency checks: whether figures can be true together, and whether the server was measured and not the client.

A `Row` may be a measured point or a line of a table that others published: every figure that it lacks is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from lmi_deploy.bench.percentiles import needed_count, percentile_name
from lmi_deploy.bench.report import Check, ClientFigures, LoadPoint, State, Summary
from lmi_deploy.domain.number_text import counted, seconds_text

LITTLES_LAW: Final = 0.05
LAG: Final = 0.005
LAG_SHARE: Final = 0.1
"""A lag of the client (p99) spoils a time if it is above both: these seconds, and this share of the time's median."""
SPOILED: Final = ("e2e", "ttft", "itl")
"""The times that a late event loop lengthens; TPOT is a mean over a whole response, and follows e2e."""
CPU_SHARE: Final = 0.85
SELF_TEST_SHARE: Final = 0.1
CLOCK_JUMP: Final = 0.5
WRONG_LENGTH: Final = 0.01
TRUNCATED: Final = 0.01
RESENT: Final = 0.01
SHORT: Final = 4
"""Fewer requests per client are mostly start and end."""
FLAT: Final = 0.15
"""Less gain in throughput than this share of the gain in load: saturated."""
SAME_LOAD: Final = 1.25
INPUT_LENGTH: Final = 0.05
_TEMPLATE_TOKENS: Final = 20
_ROUNDING: Final = 0.02
"""Published figures are rounded to two or three digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Figures of one load. Latencies in one unit, `rate` per that unit of time."""

    name: str = ""
    concurrency: float | None = None
    rate: float | None = None
    mean: float | None = None
    least: float | None = None
    greatest: float | None = None
    percentiles: Mapping[float, float] = field(default_factory=dict)
    n: int | None = None


def check_order(row: Row) -> Check:
    """least <= p50 <= p90 <= ... <= greatest, and the mean between least and greatest."""
    steps = [("the least", row.least)]
    steps += [(percentile_name(q), row.percentiles[q]) for q in sorted(row.percentiles)]
    steps.append(("the greatest", row.greatest))
    given = [(name, value) for name, value in steps if value is not None]
    pairs = [*pairwise(given)]
    if row.mean is not None:
        mean = ("the mean", row.mean)
        pairs += [(least, mean) for least in given if least[0] == "the least"]
        pairs += [(mean, greatest) for greatest in given if greatest[0] == "the greatest"]
    for (low_name, low), (high_name, high) in pairs:
        if low > high * (1 + 1e-9):
            text = f"{low_name} {low:.4g} is above {high_name} {high:.4g}: no sample has both"
            return Check(name="order", state="invalid", text=text)
    return Check(name="order", state="ok", text="least, percentiles, mean and greatest are in order")


def check_littles_law(row: Row, tolerance: float = LITTLES_LAW) -> Check | None:
    """Throughput x mean latency is the number in flight, which a closed loop sets."""
    if row.rate is None or row.mean is None or not row.concurrency:
        return None
    in_flight = row.rate * row.mean
    words = (
        f"throughput x mean latency = {in_flight:.3g} in flight, of {row.concurrency:g} that were asked for"
    )
    if abs(in_flight / row.concurrency - 1) <= tolerance:
        return Check(name="littles_law", state="ok", text=words)
    fits = row.concurrency / row.rate
    cause = (
        "the client could not keep up"
        if in_flight < row.concurrency
        else "time outside of the requests was counted, or a figure is wrong"
    )
    text = f"{words}: {cause}; a mean of {fits:.3g} would fit"
    return Check(name="littles_law", state="invalid", text=text)


def check_sample_size(row: Row, confidence: float) -> list[Check]:
    """A percentile of a sample that is too small for it is only the greatest value by another name."""
    if row.n is None:
        names = ", ".join(percentile_name(q) for q in sorted(row.percentiles))
        text = f"{names} without the number of requests behind it"
        return [Check(name="sample_size", state="warning", text=text)] if names else []
    return [
        Check(
            name="sample_size",
            state="invalid",
            text=f"{percentile_name(q)} of {row.n} requests: {needed_count(q, confidence)} are needed",
        )
        for q in sorted(row.percentiles)
        if row.n < needed_count(q, confidence)
    ]


def check_objectives_reported(objectives: Iterable[float], reported: Iterable[float]) -> list[Check]:
    """An objective on a percentile that no table shows is not shown to be met."""
    known = {*reported}
    return [
        Check(
            name="objective_reported",
            state="invalid",
            text=f"the objective is on {percentile_name(q)}, and no {percentile_name(q)} is reported",
        )
        for q in objectives
        if q not in known
    ]


def check_step_time(*, step: float, steps: int, total: float) -> Check:
    """Time of a step x number of steps = time of the whole."""
    product = step * steps
    words = f"{steps} steps of {seconds_text(step)} are {seconds_text(product)}, not {seconds_text(total)}"
    if abs(product / total - 1) <= 0.1:
        return Check(name="step_time", state="ok", text="the time of a step fits the time of the whole")
    fits = f"{total / steps * 1000:.3g} ms a step would fit"
    return Check(name="step_time", state="invalid", text=f"{words}; {fits}")


def check_input_length(*, asked: float, counted: float) -> Check:
    """Tokens of a prompt by the server's count, a few of which may be those of a chat template."""
    words = f"prompts have {counted:.4g} tokens by the server's count, {asked:.4g} were asked for"
    is_near = abs(counted - asked) <= max(INPUT_LENGTH * asked, _TEMPLATE_TOKENS)
    return Check(name="input_length", state="ok" if is_near else "warning", text=words)


def check_ratio(name: str, *, before: float, after: float, printed: float) -> Check:
    """A printed ratio against the two figures that it comes from."""
    ratio = before / after
    if abs(ratio / printed - 1) <= _ROUNDING:
        return Check(name="ratio", state="ok", text=f"{name}: {printed:g}x")
    looks = " (that is the ratio in percent)" if abs(ratio * 100 / printed - 1) <= _ROUNDING else ""
    text = f"{name}: {printed:g} is printed, {before:g} / {after:g} is {ratio:.3g}x{looks}"
    return Check(name="ratio", state="invalid", text=text)


def check_cost(name: str, *, hourly: float, rate: float, printed: float, digits: int = 2) -> Check:
    """Cost of a million from price and throughput, to the digits that are printed."""
    cost = hourly / 3600 / rate * 1e6
    # The throughput is rounded, too.
    if abs(cost - printed) <= 0.5 * 10**-digits + cost * 0.005:
        return Check(name="cost", state="ok", text=f"{name}: {printed:g} per million")
    text = f"{name}: {printed:g} per million is printed, {hourly:g} an hour at {rate:g}/s is {cost:.3g}"
    return Check(name="cost", state="invalid", text=text)


def check_same_load(rows: Sequence[Row]) -> Check | None:
    """Rows that are compared had the same number of requests in flight, by Little's law."""
    loads = {row.name: row.rate * row.mean for row in rows if row.rate and row.mean}
    if len(loads) < 2:
        return None
    low, high = min(loads, key=loads.__getitem__), max(loads, key=loads.__getitem__)
    words = f"in flight: {low} {loads[low]:.2g}, {high} {loads[high]:.2g}"
    if loads[high] <= loads[low] * SAME_LOAD:
        return Check(name="same_load", state="ok", text=words)
    text = f"the compared rows had different loads ({words}): their ratio is not of the servers alone"
    return Check(name="same_load", state="warning", text=text)


def check_saturation(rows: Sequence[Row]) -> Check | None:
    """In a sweep of loads: from where more load brings only more waiting."""
    sweep = sorted(
        (row for row in rows if row.concurrency and row.rate), key=lambda row: row.concurrency or 0
    )
    for place, row in enumerate(sweep[:-1]):
        last = sweep[-1]
        assert row.rate
        assert last.rate
        assert row.concurrency
        assert last.concurrency
        gain, more = last.rate / row.rate - 1, last.concurrency / row.concurrency
        if gain < FLAT * (more - 1) and all(one.rate and one.rate >= row.rate * 0.9 for one in sweep[place:]):
            change = f"throughput {gain:+.0%} for {more:.3g}x the load"
            text = f"saturated at concurrency {row.concurrency:g} ({change}): the rest of the sweep measures queueing"
            return Check(name="saturation", state="warning", text=text)
    return None


def row_of(point: LoadPoint) -> Row:
    """The end-to-end latency of a measured point."""
    e2e = point.metrics.get("e2e")
    return Row(
        name=point.name,
        concurrency=None if point.load.ramp else point.load.concurrency,
        rate=point.rate("requests_per_s"),
        mean=e2e.mean if e2e else None,
        least=e2e.least if e2e else None,
        greatest=e2e.greatest if e2e else None,
        percentiles={one.quantile: one.value for one in e2e.percentiles if one.value is not None}
        if e2e
        else {},
        n=e2e.n if e2e else 0,
    )


def point_checks(point: LoadPoint, confidence: float) -> tuple[Check, ...]:
    """All checks of one measured point, the passed ones included."""
    row = row_of(point)
    checks = [check_order(row), *check_sample_size(row, confidence), *_load_checks(point)]
    checks += [*_loop_checks(point), *_client_checks(point.client), *_response_checks(point)]
    return tuple(checks)


def _load_checks(point: LoadPoint) -> Iterator[Check]:
    """Whether the load was the one that was asked for. Failed requests were in flight, too."""
    if not point.counts.sent:
        yield Check(name="load", state="invalid", text="no request was measured")
    elif point.load.kind == "closed" and point.load.concurrency and not point.load.ramp:
        law = check_littles_law(Row(concurrency=point.load.concurrency, rate=point.in_flight, mean=1.0))
        assert law
        words = f"{point.in_flight:.3g} requests in flight on average, of {point.load.concurrency} that were asked for"
        if point.counts.sent < SHORT * point.load.concurrency:
            text = f"{words}: {point.counts.sent} requests are too few to tell"
            yield Check(name="littles_law", state="warning", text=text)
        else:
            text = words if law.state == "ok" else f"{words}: the client could not keep up"
            yield Check(name="littles_law", state=law.state, text=text)
    lag = point.client.send_lag_p99
    e2e = point.metrics.get("e2e")
    if lag is not None and e2e and point.load.kind == "open":
        late = lag > max(LAG_SHARE * _median(e2e), LAG)
        words = f"requests were sent {lag * 1000:.3g} ms after their schedule (p99)"
        yield Check(name="schedule", state="invalid" if late else "ok", text=words)


def _median(summary: Summary) -> float:
    return summary.sample().ranked(max(summary.n // 2, 1))


def _loop_checks(point: LoadPoint) -> Iterator[Check]:
    """A late end-to-end latency makes the whole point invalid, another time only itself."""
    lag = point.client.loop_lag_p99
    if lag is None:
        return
    words = f"event loop of the client: lag {lag * 1000:.3g} ms (p99)"
    medians = {name: _median(point.metrics[name]) for name in SPOILED if name in point.metrics}
    spoiled = {name: median for name, median in medians.items() if lag > max(LAG_SHARE * median, LAG)}
    for name, median in spoiled.items():
        text = f"{words}, over {LAG_SHARE:.0%} of the median {name} of {median * 1000:.3g} ms: the client was measured"
        yield Check(name="loop_lag", state="invalid", text=text, metric="" if name == "e2e" else name)
    if not spoiled:
        yield Check(name="loop_lag", state="ok", text=words)


def _client_checks(client: ClientFigures) -> Iterator[Check]:
    if client.cpu is not None:
        words = f"the client used {client.cpu:.0%} of a core"
        yield _limited("client_cpu", client.cpu <= CPU_SHARE, words, f"{CPU_SHARE:.0%}")
    if client.clock_jump is not None and abs(client.clock_jump) > CLOCK_JUMP:
        text = f"the wall clock jumped by {client.clock_jump:+.1f} s; durations are of the monotonic clock"
        yield Check(name="clock", state="warning", text=text)
    if client.endpoint_changed:
        text = f"the endpoint changed during the run: {client.endpoint_changed}"
        yield Check(name="endpoint", state="invalid", text=text)


def _limited(name: str, is_met: bool, words: str, limit: str) -> Check:  # noqa: FBT001
    if is_met:
        return Check(name=name, state="ok", text=words)
    return Check(
        name=name, state="invalid", text=f"{words}, over {limit}: the client was measured, not the server"
    )


def _response_checks(point: LoadPoint) -> Iterator[Check]:
    counts = point.counts
    if counts.length_checked:
        share = counts.wrong_length / counts.length_checked
        words = f"{counts.wrong_length} of {counts.length_checked} responses have another number of tokens than asked"
        bad = share > WRONG_LENGTH
        yield Check(name="output_length", state="invalid" if bad else "ok", text=words)
    if counts.input_checked:
        of = counts.input_checked
        yield check_input_length(asked=counts.input_asked / of, counted=counts.input_found / of)
    if 0 < counts.input_counted < counts.succeeded:
        text = f"{counts.input_counted} of {counts.succeeded} responses have a count of input tokens: no input tokens/s"
        yield Check(name="input_tokens", state="warning", text=text)
    if counts.sent and counts.truncated:
        bad = counts.truncated / counts.sent > TRUNCATED
        text = f"{counts.truncated} of {counts.sent} streams ended before their end"
        yield Check(name="truncated", state="invalid" if bad else "warning", text=text)
    if counts.failed:
        classes = ", ".join(f"{name} {count}" for name, count in sorted(counts.errors.items()))
        text = f"{counts.failed} of {counts.sent} requests failed ({classes}); latencies are of the others"
        yield Check(name="errors", state="warning" if counts.succeeded else "invalid", text=text)
    if point.client.resent:
        again = f"{counted(point.client.resent, 'request')} sent again, of {counts.sent}"
        state: State = "warning" if point.client.resent > RESENT * max(counts.sent, 1) else "ok"
        text = f"{again}: the server closed a connection that was in use, without an answer"
        yield Check(name="connections", state=state, text=text)
    e2e, error = point.metrics.get("e2e"), point.client.self_test_error
    if error is not None and e2e:
        words = (
            f"the client itself adds {error * 1000:.2g} ms (self-test), of a mean of {e2e.mean * 1000:.3g} ms"
        )
        bad = error > SELF_TEST_SHARE * e2e.mean
        yield Check(name="self_test", state="warning" if bad else "ok", text=words)
