"""Figures of simulated runs whose truth is known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from lmi_deploy.bench.objectives import judge, parse_objective
from lmi_deploy.bench.report import ClientFigures, LoadPoint
from lmi_deploy.bench.report_points import merged, point_of
from tests.support.bench_runs import HEALTHY, closed_run, open_run


def states(point: LoadPoint) -> dict[str, str]:
    return {check.name: check.state for check in point.checks}


@pytest.mark.parametrize(("concurrency", "requests"), [(1, 2), (1, 50), (4, 16), (4, 500), (64, 6400)])
def test_closed_loop_has_its_rate_and_its_number_in_flight(concurrency: int, requests: int) -> None:
    point = point_of(closed_run(0.1, concurrency=concurrency, requests=requests))
    assert point.metrics["e2e"].mean == pytest.approx(0.1)
    assert point.rate("requests_per_s") == pytest.approx(concurrency / 0.1)
    assert point.in_flight == pytest.approx(concurrency)
    assert states(point)["littles_law"] in ("ok", "warning")
    assert point.is_valid


def test_streams_have_their_four_times() -> None:
    point = point_of(closed_run(1.0, concurrency=2, requests=40, tokens=50))
    metrics = point.metrics
    assert metrics["ttft"].mean == pytest.approx(0.02)
    assert metrics["itl"].n == 40 * 49
    assert metrics["itl"].mean == metrics["tpot"].mean == pytest.approx(0.02)
    assert metrics["output_tokens_per_s_user"].mean == pytest.approx(50)
    assert point.rate("output_tokens_per_s") == pytest.approx(100)
    assert point.rate("input_tokens_per_s") == pytest.approx(20)


def frozen(number: int, at: float = 0.0) -> float:
    """20 ms, but the server stops for a second once in eight."""
    phase = at % 8
    return 0.02 + (1 - phase if phase < 1 else 0)


def test_open_loop_shows_a_frozen_server_and_counts_from_the_schedule() -> None:
    run = open_run(150, service=frozen, requests=3600)
    p99 = point_of(run).metrics["e2e"].percentile(0.99)
    assert p99 is not None
    assert p99 > 0.9
    # The same requests, held back by the client: the latency from sending hides the second, that from the schedule
    # does not.
    held = replace(
        run, records=tuple(replace(one, sent=max(one.sent, one.end - 0.02)) for one in run.records)
    )
    point = point_of(held)
    assert point.metrics["e2e"].percentile(0.99) == pytest.approx(p99)
    assert point.metrics["queue"].percentile(0.99) == pytest.approx(p99 - 0.02, rel=0.01)
    closed = replace(held, settings=replace(run.settings, load=closed_run().settings.load))
    assert point_of(closed).metrics["e2e"].percentile(0.99) == pytest.approx(0.02, rel=0.01)


def test_percentiles_of_few_requests_have_no_value() -> None:
    e2e = point_of(closed_run(requests=298)).metrics["e2e"]
    assert [one.value is None for one in e2e.percentiles] == [False, False, False, True, True]
    assert e2e.percentiles[3].needed == 299


def test_failures_are_counted_by_class_and_are_in_no_latency() -> None:
    run = closed_run(0.1, concurrency=2, requests=100)
    records = [
        replace(one, error="throttled" if n % 10 else "truncated") for n, one in enumerate(run.records[:20])
    ]
    point = point_of(replace(run, records=(*records, *run.records[20:])))
    assert point.counts.errors == {"throttled": 18, "truncated": 2}
    assert (point.counts.sent, point.counts.succeeded, point.counts.failed) == (100, 80, 20)
    assert point.metrics["e2e"].n == 80
    assert point.in_flight == pytest.approx(2)
    assert states(point)["errors"] == "warning"


def test_run_without_any_success_is_invalid_and_not_a_crash() -> None:
    run = closed_run(0.1, requests=30)
    point = point_of(
        replace(run, records=tuple(replace(one, error="refused") for one in run.records)),
        objectives=[parse_objective("p99_ms", 500)],
    )
    assert not point.is_valid
    assert point.verdicts[0].judgement == "UNDECIDED"
    assert not point_of(replace(run, records=())).is_valid


def test_client_that_could_not_keep_up_makes_the_point_invalid() -> None:
    """boto3 threads at 256: 1252 requests/s x 72 ms are 90 in flight."""
    run = closed_run(0.072, concurrency=90, requests=9000)
    settings = replace(run.settings, load=replace(run.settings.load, concurrency=256))
    point = point_of(replace(run, settings=settings))
    assert not point.is_valid
    assert "90 requests in flight on average, of 256" in next(
        check.text for check in point.checks if check.name == "littles_law"
    )


def test_requests_of_the_warm_up_are_in_flight_until_their_responses() -> None:
    """Two clients; one is still waiting for a warm-up request when the first measured one is sent."""
    run = closed_run(lambda number: 0.1 if number else 0.19, concurrency=2, requests=12)
    warm, measured = run.records[:2], run.records[2:]
    point = point_of(replace(run, records=(*(replace(one, warmup=True) for one in warm), *measured)))
    assert point.counts.sent == 10
    assert point.in_flight == pytest.approx(2)
    assert states(point)["littles_law"] == "ok"


@pytest.mark.parametrize(
    ("client", "check"),
    [
        (replace(HEALTHY, cpu=0.9), "client_cpu"),
        (replace(HEALTHY, endpoint_changed="config a -> b"), "endpoint"),
    ],
)
def test_measured_client_makes_the_point_invalid(client: ClientFigures, check: str) -> None:
    point = point_of(replace(closed_run(), client=client))
    assert states(point)[check] == "invalid"


def test_lag_of_the_client_is_judged_by_the_figure_that_it_can_spoil() -> None:
    """8 ms are nothing of a latency of a second, and a third of a gap of 25 ms; 150 ms spoil all of it."""
    run = closed_run(1.0, requests=50, tokens=40)
    late = point_of(replace(run, client=replace(HEALTHY, loop_lag_p99=0.008)))
    assert late.is_valid
    assert late.why_invalid("e2e") == late.why_invalid("tpot") == ""
    assert "8 ms (p99), over 10% of the median itl of 2" in late.why_invalid("itl")
    assert [
        judge(parse_objective(name, 9000), late, 0.95).judgement for name in ("p90_ms", "itl_p90_ms")
    ] == [
        "PASS",
        "UNDECIDED",
    ]
    assert not point_of(replace(run, client=replace(HEALTHY, loop_lag_p99=0.15))).is_valid


def test_late_schedule_makes_an_open_loop_invalid() -> None:
    run = open_run(100, service=0.02, requests=500)
    late = replace(run, client=replace(HEALTHY, send_lag_p99=0.03))
    assert states(point_of(late))["schedule"] == "invalid"
    assert point_of(replace(run, client=replace(HEALTHY, send_lag_p99=0.0005))).is_valid


def test_clock_that_jumps_is_a_warning() -> None:
    point = point_of(replace(closed_run(), client=replace(HEALTHY, clock_jump=-3600.0)))
    assert (states(point)["clock"], point.is_valid) == ("warning", True)


def test_wrong_output_lengths_and_truncated_streams_are_invalid() -> None:
    run = closed_run(1.0, requests=50, tokens=20)
    short = tuple(replace(one, output_tokens=12) if one.number < 3 else one for one in run.records)
    assert states(point_of(replace(run, records=short)))["output_length"] == "invalid"
    cut = tuple(
        replace(one, error="truncated", truncated=True) if one.number < 3 else one for one in run.records
    )
    assert states(point_of(replace(run, records=cut)))["truncated"] == "invalid"


def with_inputs(asked: int | None, counts: Sequence[int | None]) -> LoadPoint:
    run = closed_run(0.1, requests=len(counts))
    records = tuple(
        replace(one, asked_input_tokens=asked, input_tokens=count, input_counted_by="server" if count else "")
        for one, count in zip(run.records, counts, strict=True)
    )
    return point_of(replace(run, records=records))


@pytest.mark.parametrize(("counted", "state"), [(1040, "ok"), (1080, "warning"), (30, "warning")])
def test_prompts_of_another_length_than_asked_are_a_warning(counted: int, state: str) -> None:
    point = with_inputs(1000, [counted] * 100)
    (check,) = [one for one in point.checks if one.name == "input_length"]
    assert (check.state, f"{counted} tokens by the server's count, 1000" in check.text) == (state, True)
    assert point.rate("input_tokens_per_s") == pytest.approx(counted / 0.1, rel=0.02)


def test_count_that_some_responses_lack_makes_no_rate() -> None:
    point = with_inputs(None, [10, None] * 50)
    assert "input_tokens_per_s" not in point.rates
    (check,) = [one for one in point.checks if one.name == "input_tokens"]
    assert check.text == "50 of 100 responses have a count of input tokens: no input tokens/s"


def test_requests_that_depend_on_each_other_widen_the_interval() -> None:
    chance = random.Random(4)
    independent = point_of(closed_run(lambda n: chance.uniform(0.1, 0.2), requests=2000)).metrics["e2e"]
    waves = point_of(closed_run(lambda n: 0.1 if n // 250 % 2 else 0.2, requests=2000)).metrics["e2e"]
    assert independent.inflation < 3
    assert waves.inflation > 50


def test_goodput_counts_the_requests_within_every_limit() -> None:
    run = closed_run(lambda n: 0.1 if n % 4 else 0.4, requests=400)
    point = point_of(run, objectives=[parse_objective("p99_ms", 200)])
    assert point.rate("goodput_per_s") == pytest.approx(point.rate("requests_per_s") * 0.75, rel=0.01)


def test_replayed_trace_has_no_rate_but_a_name_and_figures() -> None:
    run = open_run(50, requests=400)
    load = replace(run.settings.load, rate=None, arrivals="replay")
    replayed = replace(run, settings=replace(run.settings, load=load))
    point = point_of(replayed)
    assert (point.name, point.load.words) == ("replay", "open loop, replay")
    assert point.rate("requests_per_s") == pytest.approx(50, rel=0.15)
    assert merged([point, point]).load.rate is None


def test_timeline_counts_each_request_once() -> None:
    point = point_of(closed_run(0.1, concurrency=4, requests=1000))
    assert sum(one.completed for one in point.timeline) == 1000
    assert point.timeline[30].in_flight == pytest.approx(4)
    assert sum(count for one in point.timeline for _, count in one.heat) == 1000


def test_parts_of_several_machines_are_one_point() -> None:
    parts = [point_of(closed_run(0.1, concurrency=8, requests=800)) for _ in range(3)]
    parts[1] = replace(parts[1], client=replace(HEALTHY, cpu=0.95))
    whole = merged(parts)
    assert (whole.load.concurrency, whole.counts.sent, whole.metrics["e2e"].n) == (24, 2400, 2400)
    assert whole.rate("requests_per_s") == pytest.approx(240)
    assert whole.in_flight == pytest.approx(24)
    assert states(whole)["littles_law"] == "ok"
    # The client is the worst of the three.
    assert not whole.is_valid
