"""Loads that change during a run: their schedules, parts and checks."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import pairwise, takewhile

import pytest

from lmi_deploy.bench.arrivals import ramped_times
from lmi_deploy.bench.cost import best_point
from lmi_deploy.bench.experiment_design import design
from lmi_deploy.bench.load import Load, Ramp, with_ramp
from lmi_deploy.bench.ramp_slices import ramp_tables
from lmi_deploy.bench.report import LoadPoint, Provenance, Report
from lmi_deploy.bench.report_file import from_json, to_json
from lmi_deploy.bench.report_points import merged, point_of
from lmi_deploy.bench.request_records import RequestRecord, RunResult, RunSettings
from lmi_deploy.domain.recipe_bench_keys import Bench
from lmi_deploy.errors import UsageRefused
from tests.support.bench_runs import HEALTHY

CLOSED = Load(kind="closed", concurrency=1, ramp=Ramp(to=8, seconds=80, steps=8))
OPEN = Load(kind="open", rate=10.0, arrivals="constant", ramp=Ramp(to=50, seconds=20))


@pytest.mark.parametrize(
    ("load", "at", "level"),
    [(CLOSED, -5, 1), (CLOSED, 9.9, 1), (CLOSED, 10.1, 2), (CLOSED, 79, 8), (OPEN, 10, 30), (OPEN, 99, 50)],
)
def test_level_of_a_ramp(load: Load, at: float, level: float) -> None:
    assert load.level(at) == pytest.approx(level)


@pytest.mark.parametrize(("arrivals", "near"), [("constant", 2), ("poisson", 100), ("gamma", 200)])
@pytest.mark.parametrize(("first", "to"), [(10.0, 110.0), (110.0, 10.0)])
def test_schedule_of_a_ramp_has_the_requests_that_its_rate_asks_for(
    arrivals: str, near: int, first: float, to: float
) -> None:
    load = Load(kind="open", rate=first, arrivals=arrivals, ramp=Ramp(to=to, seconds=100))
    times = list(takewhile(lambda at: at < 130, ramped_times(load, seed=4, warm_at=lambda: 20.0)))
    parts = [sum(begin <= at < begin + 10 for at in times) for begin in range(0, 130, 10)]
    expected = [10 * first, 10 * first, *(10 * load.level(at) for at in range(5, 100, 10)), 10 * to]
    assert parts == pytest.approx(expected, abs=near)
    assert len(times) == pytest.approx(sum(expected), abs=4 * near)


def test_ramp_begins_when_the_warm_up_has_ended() -> None:
    warm: list[float] = []
    times = ramped_times(OPEN, seed=1, warm_at=lambda: warm[0] if warm else None)
    assert [next(times) for _ in range(4)] == pytest.approx([0, 0.1, 0.2, 0.3])
    warm.append(0.3)
    gaps = [b - a for a, b in pairwise(next(times) for _ in range(200))]
    assert all(after < before + 1e-9 for before, after in pairwise(gaps))
    assert (gaps[0], gaps[-1]) == pytest.approx((0.1, 1 / 31), rel=0.1)


def climbed(*, keeps_up: bool = True, until: float = 80.0) -> RunResult:
    """A server that takes 0.5 s, and clients that join step by step; a client that is slow pauses as long."""
    assert CLOSED.ramp
    free = [float(number) * 10 for number in range(8)]
    heapq.heapify(free)
    records = []
    while (begin := heapq.heappop(free)) < until:
        end = begin + 0.5
        records.append(RequestRecord(scheduled=begin, sent=begin, end=end, status=200, number=len(records)))
        heapq.heappush(free, end + (0.0 if keeps_up else 0.5))
    settings = RunSettings(load=CLOSED)
    return RunResult(
        settings=settings, records=tuple(records), client=HEALTHY, began="2026-11-01T10:00:00Z", warm_at=0.0
    )


def states(point: LoadPoint) -> dict[str, str]:
    return {check.name: check.state for check in point.checks}


def test_each_step_has_its_figures() -> None:
    point = point_of(climbed())
    assert point.name == "c=1..8"
    assert [one.asked for one in point.ramp] == pytest.approx([1, 2, 3, 4, 5, 6, 7, 8], rel=0.01)
    assert [one.in_flight for one in point.ramp] == pytest.approx([1, 2, 3, 4, 5, 6, 7, 8], rel=0.06)
    assert [one.completed / one.seconds for one in point.ramp] == pytest.approx(range(2, 18, 2), rel=0.1)
    assert all(one.mean == pytest.approx(0.5) for one in point.ramp)
    assert [one.p99 is None for one in point.ramp] == [True] * 8
    assert (states(point)["littles_law"], states(point)["ramp"]) == ("ok", "ok")
    assert point.is_valid


def test_client_that_pauses_is_found_in_a_ramp() -> None:
    point = point_of(climbed(keeps_up=False))
    (check,) = [one for one in point.checks if one.name == "littles_law"]
    assert check.state == "invalid"
    assert "the client could not keep up" in check.text
    assert not point.is_valid


def test_ramp_that_was_cut_short_says_how_far_it_came() -> None:
    point = point_of(climbed(until=35.0))
    (check,) = [one for one in point.checks if one.name == "ramp"]
    assert (check.state, check.text.partition(" of")[0]) == ("warning", "34.5")
    assert len(point.ramp) == 4
    never = point_of(replace(climbed(), warm_at=None))
    assert (states(never)["ramp"], never.is_valid) == ("invalid", False)


def test_ramp_keeps_no_rate_up_for_a_capacity() -> None:
    assert best_point([point_of(climbed())]) is None


def test_ramp_is_a_table_and_survives_the_file_and_several_machines() -> None:
    point = point_of(climbed())
    made = Report(
        name="r",
        created="now",
        provenance=Provenance(tool="lmi", python="3", machine="m", cpus=1, clock="c"),
        points=(point,),
    )
    (table,) = ramp_tables(from_json(to_json(made), "x"))
    assert [row[1] for row in table.rows] == ["1.00", "2.00", "3.00", "4.00", "5.00", "6.00", "7.00", "8.00"]
    assert table.notes[0].endswith("at concurrency 8")
    both = merged([point, point])
    assert [one.asked for one in both.ramp] == pytest.approx([2, 4, 6, 8, 10, 12, 14, 16], rel=0.01)
    assert (both.name, both.is_valid) == ("c=2..16", True)


@pytest.mark.parametrize(
    ("load", "to", "steps", "words"),
    [
        (Load(kind="closed", concurrency=4), 4, None, "a ramp from 4 to 4 is none"),
        (Load(kind="closed", concurrency=4), 8.5, None, "8.5 is no concurrency"),
        (Load(kind="open", rate=2.0), 8, 3, "a ramp of a rate has no steps"),
    ],
)
def test_ramp_that_is_none_is_refused(load: Load, to: float, steps: int | None, words: str) -> None:
    with pytest.raises(UsageRefused, match=words):
        with_ramp(load, to, steps, seconds=10)


def test_experiment_ramps_each_cell() -> None:
    (deployment,) = design(Bench(matrix=(("output_tokens", ("5", "9")),), ramp_to=4, duration=8))
    assert [cell.name for cell in deployment.cells] == ["output_tokens=5, c=1..4", "output_tokens=9, c=1..4"]
    assert deployment.cells[0].load.ramp == Ramp(to=4, seconds=8, steps=4)


@pytest.mark.parametrize(
    ("bench", "words"),
    [
        (Bench(ramp_to=1), "bench.ramp_to: a ramp from 1 to 1"),
        (Bench(ramp_steps=3), "bench.ramp_steps: has no effect"),
        (Bench(ramp_to=4, requests=5), "cannot be combined with requests"),
        (Bench(ramp_to=4, repeats=2), "cannot be combined with repeats"),
        (Bench(ramp_to=4, objectives=(("p99_ms", "5"),)), "cannot be combined with objectives"),
        (Bench(ramp_to=4, matrix=(("concurrency", ("1", "2")),)), "cannot be combined with concurrency"),
    ],
)
def test_ramp_that_contradicts_the_experiment_is_refused(bench: Bench, words: str) -> None:
    with pytest.raises(UsageRefused, match=words):
        design(bench)
