"""A load that several machines send together is the load of one machine, and so are its figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice, takewhile

import pytest

from lmi_deploy.bench.arrivals import arrival_times, ramped_times, replayed_times
from lmi_deploy.bench.load import Load, Ramp, with_ramp
from lmi_deploy.bench.load_share import LoadShare, require_divisible
from lmi_deploy.bench.merged_runs import MachineRun, merged_run
from lmi_deploy.bench.objectives import parse_objective
from lmi_deploy.bench.report import PercentileFigure
from lmi_deploy.bench.report_points import point_of
from lmi_deploy.bench.request_records import RequestRecord, RunResult
from lmi_deploy.bench.run_limits import RunLimits, RunPhases
from lmi_deploy.errors import UsageRefused
from tests.support.bench_runs import HEALTHY, closed_run, open_run

CLOSED = Load(kind="closed", concurrency=7)
SERVICE = [0.02 + 0.001 * (number * 37 % 50) for number in range(50)]


def shares(machines: int) -> list[LoadShare]:
    return [LoadShare(number=number, machines=machines) for number in range(machines)]


def shifted(record: RequestRecord, by: float) -> RequestRecord:
    return replace(
        record,
        scheduled=record.scheduled + by,
        sent=record.sent + by,
        end=record.end + by,
        arrivals=tuple(at + by for at in record.arrivals),
    )


def bounds(figure: PercentileFigure) -> dict[str, float]:
    """Those that the sample supports."""
    values = {"value": figure.value, "low": figure.low, "high": figure.high}
    return {name: value for name, value in values.items() if value is not None}


def divided(run: RunResult, machines: int) -> list[MachineRun]:
    """As machines would have measured it, each with a monotonic clock of its own."""
    origins = [1000.0 * number + 17 for number in range(machines)]
    return [
        MachineRun(
            result=replace(
                run,
                records=tuple(shifted(one, origin) for one in share.every(run.records)),
                warm_at=None if run.warm_at is None else run.warm_at + origin,
                kept_until=None if run.kept_until is None else run.kept_until + origin,
            ),
            origin=origin,
        )
        for share, origin in zip(shares(machines), origins, strict=True)
    ]


@pytest.mark.parametrize("machines", [1, 2, 3, 7])
@pytest.mark.parametrize("arrivals", ["poisson", "constant", "gamma", "replay"])
def test_schedules_of_all_machines_are_the_schedule_of_one(arrivals: str, machines: int) -> None:
    def schedule() -> list[float]:
        if arrivals == "replay":
            return [*replayed_times([5.0, 9.5, 5.25, 7.0, 6.0, 6.0, 8.0, 12.0, 5.5])]
        return [*islice(arrival_times(40.0, arrivals, seed=3), 500)]

    prompts = cycle("abcde")
    whole = [*zip(schedule(), prompts, strict=False)]
    parts = [
        pair
        for share in shares(machines)
        for pair in zip(share.every(schedule()), share.every(cycle("abcde")), strict=False)
    ]
    assert sorted(parts) == sorted(whole)


@pytest.mark.parametrize("machines", [1, 2, 3, 7])
def test_loads_and_limits_of_all_machines_add_up(machines: int) -> None:
    limits = RunLimits(seconds=60, requests=100, warmup_requests=14)
    loads = [share.load(CLOSED).concurrency or 0 for share in shares(machines)]
    assert (sum(loads), max(loads) - min(loads) <= 1) == (7, True)
    assert sum(share.limits(limits).requests or 0 for share in shares(machines)) == 100
    assert sum(share.limits(limits).warmup_requests or 0 for share in shares(machines)) >= 14
    rates = [
        share.load(Load(kind="open", rate=8.0, arrivals="poisson")).rate or 0 for share in shares(machines)
    ]
    assert sum(rates) == pytest.approx(8.0)


def test_requests_of_an_open_loop_are_those_of_its_schedule_until_the_limit() -> None:
    """The machine that counts to its share has sent the requests with these places in the whole schedule."""
    limits = RunLimits(seconds=60, requests=10)
    sent = [
        place
        for share in shares(3)
        for place in islice(share.every(range(100)), share.limits(limits).requests)
    ]
    assert sorted(sent) == [*range(10)]


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (CLOSED, "concurrency 7 cannot be divided over 8 machines"),
        (
            replace(CLOSED, concurrency=9, ramp=Ramp(to=7, seconds=5)),
            "concurrency 7 cannot be divided over 8",
        ),
        (replace(CLOSED, ramp=Ramp(to=9, seconds=5)), "concurrency 7 cannot be divided over 8 machines"),
    ],
)
def test_load_that_cannot_be_divided_is_refused(load: Load, message: str) -> None:
    with pytest.raises(UsageRefused, match=message) as refused:
        LoadShare(number=0, machines=8).load(load)
    assert refused.value.hint


@pytest.mark.parametrize("machines", [2, 3, 4])
@pytest.mark.parametrize("arrivals", ["poisson", "constant", "gamma"])
def test_ramps_of_all_machines_are_the_ramp_of_one(arrivals: str, machines: int) -> None:
    """Also its requests around the moment at which it begins."""
    load = Load(kind="open", rate=6.0, arrivals=arrivals, ramp=Ramp(to=60.0, seconds=20))

    def times() -> list[float]:
        return [*takewhile(lambda at: at < 60, ramped_times(load, seed=3, warm_at=lambda: 30.0))]

    parts = [[*share.every(times())] for share in shares(machines)]
    assert sorted(at for part in parts for at in part) == times()
    assert all(parts)
    rates = [share.load(load) for share in shares(machines)]
    for at in (0.0, 7.0, 20.0):
        assert sum(one.level(at) for one in rates) == pytest.approx(load.level(at))


@pytest.mark.parametrize("machines", [1, 2, 3, 5])
@pytest.mark.parametrize(("first", "to"), [(5, 64), (64, 5), (7, 12)])
def test_clients_of_each_step_of_a_ramp_add_up(machines: int, first: int, to: int) -> None:
    load = with_ramp(Load(kind="closed", concurrency=first), to, 8, seconds=40)
    parts = [share.load(load) for share in shares(machines)]
    assert sum(part.concurrency or 0 for part in parts) == first
    assert sum(part.most_concurrency for part in parts) == max(first, to)
    assert load.ramp
    for step in range(load.ramp.steps):
        level = int(load.level((step + 0.5) * load.ramp.seconds / load.ramp.steps))
        clients = [share.clients(level) for share in shares(machines)]
        assert (sum(clients), max(clients) - min(clients) <= 1, min(clients) > 0) == (level, True, True)


def test_ramp_of_several_machines_begins_at_an_agreed_time() -> None:
    load = replace(CLOSED, ramp=Ramp(to=9, seconds=5))
    with pytest.raises(UsageRefused, match="takes no number of requests as its warm-up"):
        require_divisible(load, RunLimits(seconds=5, warmup_requests=4), 2)
    for warmup in (None, 0):
        require_divisible(load, RunLimits(seconds=5, warmup_requests=warmup), 2)
    require_divisible(load, RunLimits(seconds=5, warmup_requests=4), 1)
    phases = RunPhases(LoadShare(machines=2).limits(RunLimits(seconds=5, warmup_seconds=3)), 1, began=10.0)
    phases.may_begin(13.07)
    assert (phases.is_warm, phases.warm_since) == (True, 13.0)


def test_too_few_requests_are_refused() -> None:
    with pytest.raises(UsageRefused, match="3 requests cannot be divided over 4 machines"):
        LoadShare(number=3, machines=4).limits(RunLimits(seconds=1, requests=3))


def test_warm_up_of_a_share_takes_its_time_although_latencies_are_steady() -> None:
    for share, warm in ((LoadShare(), True), (LoadShare(machines=2), False)):
        phases = RunPhases(share.limits(RunLimits(seconds=10, warmup_seconds=5)), 1, began=0.0)
        for _ in range(40):
            phases.begin()
            phases.end(0.1, now=1.0)
        assert phases.is_warm is warm
        assert phases.may_begin(5.1) == ""
        assert phases.is_warm


@pytest.mark.parametrize("machines", [1, 2, 3])
@pytest.mark.parametrize(
    "run",
    [
        closed_run(lambda number: SERVICE[number % 50], concurrency=6, requests=600, tokens=4),
        open_run(
            50.0, service=lambda number, at: SERVICE[number % 50] + (0.3 if 4 < at < 5 else 0), tokens=4
        ),
    ],
    ids=["closed", "open"],
)
def test_figures_of_merged_machines_are_those_of_one_machine(run: RunResult, machines: int) -> None:
    """Percentiles, intervals, rates, goodput, requests in flight, the time line and the verdict."""
    failed = [replace(one, error="http_503") if one.number % 97 == 5 else one for one in run.records]
    run = replace(run, warm_at=1.0, records=tuple(replace(one, warmup=one.sent < 1.0) for one in failed))
    objectives = [parse_objective("p90_ms", 300), parse_objective("mean_ms", 60.5)]
    merged = merged_run(divided(run, machines), run.settings)
    assert merged.left_out == 0
    found, expected = (point_of(one, objectives=objectives) for one in (merged.result, run))
    assert (found.counts, found.verdicts) == (expected.counts, expected.verdicts)
    assert (found.in_flight, found.seconds) == pytest.approx((expected.in_flight, expected.seconds))
    for name, summary in expected.metrics.items():
        other = found.metrics[name]
        assert (other.n, other.mean, other.error) == pytest.approx((summary.n, summary.mean, summary.error))
        assert [*map(bounds, other.percentiles)] == [
            pytest.approx(bounds(one), rel=2e-3) for one in summary.percentiles
        ]
    assert found.rates.keys() == expected.rates.keys() >= {"requests_per_s", "goodput_per_s"}
    for name, rate in expected.rates.items():
        assert found.rates[name].value == pytest.approx(rate.value)
    assert [part.in_flight for part in found.timeline] == pytest.approx(
        [p.in_flight for p in expected.timeline]
    )


def warmed(machine: MachineRun, until: float) -> MachineRun:
    """With a warm-up of so many seconds."""
    warm_at = machine.origin + until
    records = tuple(replace(one, warmup=one.sent < warm_at) for one in machine.result.records)
    return replace(machine, result=replace(machine.result, records=records, warm_at=warm_at))


def test_without_a_warm_up_a_machine_that_begins_late_costs_no_request() -> None:
    one, two = divided(closed_run(0.1, concurrency=2, requests=200), 2)
    one, two = (replace(each, result=replace(each.result, warm_at=each.origin)) for each in (one, two))
    two = replace(two, result=replace(two.result, warm_at=two.origin + 0.3))
    merged = merged_run([one, two], closed_run(concurrency=2).settings)
    assert merged.result.warm_at == 0
    assert not any(record.warmup for record in merged.result.records)


def test_merged_run_counts_from_the_last_warm_machine_until_the_first_that_ends() -> None:
    one, two = divided(closed_run(0.1, concurrency=2, requests=200), 2)
    one, two = warmed(one, 1.0), warmed(two, 2.0)
    one = replace(one, result=replace(one.result, kept_until=one.origin + 9.0))
    two = replace(two, result=replace(two.result, kept_until=two.origin + 7.95))
    merged = merged_run([one, two], closed_run(concurrency=2).settings)
    measured = [record for record in merged.result.records if not record.warmup]
    assert (merged.result.warm_at, merged.result.kept_until) == pytest.approx((2.0, 7.95))
    assert min(record.sent for record in measured) == pytest.approx(2.0)
    assert max(record.sent for record in measured) == pytest.approx(7.9)
    assert (len(merged.result.records), merged.left_out) == (160, 40)
    assert [record.number for record in merged.result.records] == [*range(160)]


def test_machine_that_ended_in_its_warm_up_leaves_all_requests_counted() -> None:
    one, two = divided(replace(closed_run(0.1, requests=40), warm_at=1.0), 2)
    two = replace(two, result=replace(two.result, warm_at=None))
    merged = merged_run([one, two], one.result.settings)
    assert merged.result.warm_at is None
    assert not any(record.warmup for record in merged.result.records)


def test_worst_client_and_an_interruption_of_one_machine_are_those_of_the_run() -> None:
    one, two = divided(closed_run(0.1, concurrency=2, requests=200), 2)
    two = replace(two, result=replace(two.result, client=replace(HEALTHY, cpu=0.97), interrupted=True))
    merged = merged_run([one, two], closed_run(concurrency=2).settings)
    assert (merged.result.interrupted, merged.result.client.cpu) == (True, 0.97)
    (check,) = [check for check in point_of(merged.result).checks if check.name == "client_cpu"]
    assert check.state == "invalid"
