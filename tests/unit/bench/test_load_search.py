"""The searches of `lmi bench --find`, on a simulated server of known capacity."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.load_search import KneeSearch, LoadSearch, RateSearch
from lmi_deploy.bench.objectives import Objective, parse_objective
from lmi_deploy.bench.report import LoadPoint, Report, SearchAnswer
from lmi_deploy.bench.report_file import from_json, to_json
from lmi_deploy.bench.report_points import point_of
from lmi_deploy.bench.report_tables import report_tables
from lmi_deploy.bench.text_reports import headline, to_junit
from tests.support.bench_runs import BEGAN, closed_run, open_run
from tests.unit.bench.test_conclusions import PROVENANCE

SERVICE, WORKERS = 0.1, 8
CAPACITY = WORKERS / SERVICE


def queue() -> Callable[[int, float], float]:
    """Latency of the next arrival at a server whose workers take requests in their order."""
    free = [0.0] * WORKERS
    chance = random.Random(3)

    def latency(number: int, at: float) -> float:
        begin = max(at, heapq.heappop(free))
        heapq.heappush(free, begin + SERVICE * chance.uniform(0.9, 1.1))
        return begin + SERVICE - at

    return latency


def open_point(load: Load, objectives: tuple[Objective, ...], seconds: float) -> LoadPoint:
    assert load.rate
    run = open_run(load.rate, service=queue(), requests=max(2, int(load.rate * seconds)))
    return point_of(run, objectives=objectives)


def closed_point(load: Load) -> LoadPoint:
    """Beyond its workers the server makes requests wait."""
    many = load.concurrency or 1
    return point_of(closed_run(SERVICE * max(1, many / WORKERS), concurrency=many, requests=many * 40))


def searched(
    search: LoadSearch, measured: Callable[[Load], LoadPoint]
) -> tuple[SearchAnswer, list[LoadPoint]]:
    points: list[LoadPoint] = []
    while (load := search.next_load(points)) is not None:
        points.append(measured(load))
    return search.answer(points), points


def rates(
    limit: float = 300, *, first: float = 1, steps: int = 20, seconds: float = 60
) -> tuple[SearchAnswer, list[LoadPoint]]:
    objectives = (parse_objective("p99_ms", limit),)
    search = RateSearch(objectives=objectives, steps=steps, first=first)
    return searched(search, lambda load: open_point(load, objectives, seconds))


@pytest.mark.parametrize("first", [1, 40, 200])
def test_highest_rate_is_found_from_below_and_from_above(first: float) -> None:
    answer, points = rates(first=first)
    assert answer.state == "FOUND", answer.text
    assert answer.value is not None
    assert 0.7 * CAPACITY < answer.value < CAPACITY
    failing = min(step.level for step in answer.steps if step.outcome in ("FAIL", "UNDECIDED"))
    assert answer.value < failing <= answer.value * 1.12
    assert len(points) == len(answer.steps) <= 16


def test_objective_that_no_rate_meets_is_said_after_bounded_steps() -> None:
    answer, points = rates(limit=50, first=64, steps=5)
    assert (answer.state, answer.value, len(points)) == ("NONE", None, 5)
    assert "no rate from 4 requests/s meets p99_ms <= 50 (5 steps)" in answer.text


def test_too_few_requests_are_undecided_and_are_searched_above() -> None:
    answer, points = rates(first=1, steps=2, seconds=5)
    assert [point.load.rate for point in points] == [1, 2]
    assert (answer.state, answer.steps[0].outcome) == ("UNDECIDED", "too few requests")
    assert "a longer --duration decides" in answer.text


def test_search_that_ends_too_soon_has_a_rate_and_no_decision() -> None:
    answer, _ = rates(first=10, steps=2)
    assert (answer.state, answer.value) == ("UNDECIDED", 20)
    assert "the limit is higher" in answer.text
    answer, _ = rates(first=50, steps=2)
    assert (answer.state, answer.value) == ("UNDECIDED", 50)
    assert "between them" in answer.text


def test_client_that_cannot_keep_up_is_no_limit_of_the_server() -> None:
    objectives = (parse_objective("p99_ms", 300),)

    def measured(load: Load) -> LoadPoint:
        assert load.rate
        run = open_run(load.rate, requests=1000)
        lag = 0.2 if load.rate > 100 else 0.0001
        return point_of(replace(run, client=replace(run.client, loop_lag_p99=lag)), objectives=objectives)

    answer, _ = searched(RateSearch(objectives=objectives, steps=20, first=50), measured)
    assert (answer.state, answer.value) == ("UNDECIDED", 100)
    assert "is INVALID" in answer.text


def test_server_that_answers_nothing_ends_the_search() -> None:
    objectives = (parse_objective("error_rate", 0.01),)

    def measured(load: Load) -> LoadPoint:
        run = open_run(1, requests=20)
        failed = tuple(replace(one, error="http_503", status=503) for one in run.records)
        return point_of(replace(run, records=failed), objectives=objectives)

    _, points = searched(RateSearch(objectives=objectives, steps=20), measured)
    assert len(points) == 1


@pytest.mark.parametrize("first", [1, 3, 8])
def test_knee_is_where_all_workers_are_busy(first: int) -> None:
    answer, points = searched(KneeSearch(steps=20, first=first), closed_point)
    assert (answer.state, answer.value) == ("FOUND", WORKERS), answer.text
    assert len(points) <= 10


def test_knee_beyond_the_steps_is_undecided() -> None:
    answer, _ = searched(KneeSearch(steps=3), closed_point)
    assert (answer.state, answer.value) == ("UNDECIDED", 4)
    assert KneeSearch(steps=3).answer([]).state == "UNDECIDED"


def test_report_contains_each_step_and_is_read_back() -> None:
    answer, points = rates(first=40)
    report = Report(name="r", created=BEGAN, provenance=PROVENANCE, points=tuple(points), search=answer)
    assert from_json(to_json(report), "x") == report
    assert report.judgement == "PASS"
    assert headline(report).startswith(f"FOUND: {answer.text}")
    table = report_tables(report)[0]
    assert [row[0] for row in table.rows] == [str(n + 1) for n in range(len(points))]
    (case,) = ElementTree.fromstring(to_junit(report)).iter("testcase")
    assert not [*case]
    missed = replace(report, search=replace(answer, state="NONE", value=None))
    assert missed.judgement == "FAIL"
    assert [*ElementTree.fromstring(to_junit(missed)).iter("failure")]
