"""Objectives, costs, comparisons and the report's file."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.bench.comparison import compare
from lmi_deploy.bench.cost import capacity, cost_per_million, costs, money
from lmi_deploy.bench.objectives import judge, parse_objective
from lmi_deploy.bench.report import LoadPoint, Provenance, Report
from lmi_deploy.bench.report_file import from_json, json_schema, to_json
from lmi_deploy.bench.report_points import point_of
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.errors import UsageRefused
from tests.support.bench_runs import BEGAN, T4, closed_run, open_run
from tests.support.hypothesis_settings import examples

PROVENANCE = Provenance(tool="lmi 0.1.0", python="3.11", machine="test", cpus=2, clock="time.perf_counter")


@cache
def schema() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


def report(*points: LoadPoint, **changes: object) -> Report:
    return Report(name="test", created=BEGAN, provenance=PROVENANCE, points=points, **changes)  # type: ignore[arg-type]


@cache
def noisy(mean: float, *, requests: int = 2000, seed: int = 1, **changes: object) -> LoadPoint:
    chance = random.Random(seed)
    run = closed_run(lambda n: mean * chance.uniform(0.5, 1.5), requests=requests, **changes)  # type: ignore[arg-type]
    return point_of(run)


@pytest.mark.parametrize(
    ("name", "limit", "judgement"),
    [
        ("p99_ms", 160, "PASS"),
        ("p99_ms", 120, "FAIL"),
        ("p99_ms", 149, "UNDECIDED"),
        ("p99.9_s", 1, "UNDECIDED"),
        ("mean_ms", 110, "PASS"),
        ("mean_ms", 90, "FAIL"),
        ("mean_ms", 100, "UNDECIDED"),
        ("error_rate", 0.01, "PASS"),
        ("error_rate", 0.001, "UNDECIDED"),
        ("requests_per_s", 9, "PASS"),
        ("requests_per_s", 11, "FAIL"),
        ("ttft_p95_ms", 100, "UNDECIDED"),
        ("items_per_s", 11, "FAIL"),
    ],
)
def test_objectives_are_judged_by_what_the_sample_shows(name: str, limit: float, judgement: str) -> None:
    """2000 requests, uniform from 50 to 150 ms: P99 is 149 ms."""
    verdict = judge(parse_objective(name, limit), noisy(0.1), 0.95)
    assert verdict.judgement == judgement, verdict.text


def test_few_requests_never_meet_a_p99() -> None:
    verdict = judge(parse_objective("p99_ms", 50), point_of(closed_run(0.02, requests=20)), 0.95)
    assert (verdict.judgement, verdict.text) == ("UNDECIDED", "20 requests: 299 are needed")
    strict = judge(parse_objective("p99_ms", 50), point_of(closed_run(0.02, requests=300)), 0.99)
    assert strict.text == "300 requests: 459 are needed"


def test_failed_requests_are_slower_than_every_limit() -> None:
    """2 % of failures: no P99 is met, however fast the others are."""
    run = closed_run(0.02, requests=1000)
    shed = tuple(replace(one, error="throttled") if one.number % 50 == 0 else one for one in run.records)
    point = point_of(replace(run, records=shed))
    assert judge(parse_objective("p99_ms", 500), point, 0.95).judgement == "FAIL"
    assert judge(parse_objective("p95_ms", 500), point, 0.95).judgement == "PASS"
    assert judge(parse_objective("error_rate", 0.01), point, 0.95).judgement == "FAIL"


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        ("p99", 50, "p99 is no objective"),
        ("p0_ms", 50, "there is no p0"),
        ("latency_p99_ms", 50, "is no objective"),
        ("p99_ms", -1, "at least 0"),
        ("p99_ms", float("nan"), "at least 0"),
        ("error_rate", 1.5, "share of the requests"),
    ],
)
def test_bad_objectives_are_refused(name: str, limit: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_objective(name, limit)


def test_objective_says_its_limit_in_its_own_unit() -> None:
    assert parse_objective("ttft_p99.9_ms", 250).words == "ttft_p99.9_ms <= 250"
    assert parse_objective("items_per_s", 12).words == "items_per_s >= 12"


def test_costs_are_those_of_all_instances() -> None:
    """Two instances at 0.7364 an hour make 20 requests/s of 50 tokens."""
    point = point_of(closed_run(0.1, concurrency=2, requests=200, tokens=50, billed=T4))
    per_request = 2 * 0.7364 / 3600 / 20 * 1e6
    assert cost_per_million(point, "request") == pytest.approx(per_request)
    assert cost_per_million(point, "output token") == pytest.approx(per_request / 50)
    assert [cost.unit for cost in costs(point)] == ["request", "item", "input token", "output token"]
    assert costs(replace(point, billed=replace(T4, price=None))) == ()


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.4173, "$0.417"),
        (161.4, "$161"),
        (1234.5, "$1,230"),
        (0.00321, "$0.00321"),
        (9.999, "$10.0"),
        (0, "$0"),
    ],
)
def test_money_has_three_significant_digits(amount: float, text: str) -> None:
    assert money(amount, "USD") == text


def test_capacity_is_of_the_highest_rate_that_meets_the_objectives() -> None:
    limits = [parse_objective("p99_ms", 150)]
    points = [
        point_of(open_run(rate, service=service, requests=2000, billed=T4), objectives=limits)
        for rate, service in ((10, 0.05), (20, 0.1), (40, 0.3))
    ]
    found = capacity(points)
    assert found is not None
    assert found.point == "20/s"
    assert found.invocations == pytest.approx(20 / 2 * 60 * 0.5, rel=0.05)
    assert "/ 2 instances x 60 s x 0.5" in [*found.lines()][1]
    assert capacity([points[2]]) is None


def test_comparison_finds_what_changed_and_nothing_else() -> None:
    before = report(noisy(0.1))
    slower = compare(before, report(noisy(0.11, seed=2)), names=("a", "b"))
    changes = {f"{change.metric} {change.statistic}": change for change in slower.changes}
    assert {key: change.direction for key, change in changes.items()} == dict.fromkeys(changes, "worse")
    assert changes["e2e mean"].effect is not None
    assert changes["e2e mean"].effect.low < 1.1 < changes["e2e mean"].effect.high
    assert [one.judgement for one in slower.verdicts(0.05, ["e2e mean"])] == ["FAIL"]
    assert [one.judgement for one in slower.verdicts(0.2, ["e2e mean", "e2e p50"])] == ["PASS", "PASS"]
    assert [one.judgement for one in slower.verdicts(0.1, ["e2e mean", "requests_per_s mean"])] == [
        "UNDECIDED"
    ] * 2


@pytest.mark.parametrize("seed", range(2, 12))
def test_same_server_measured_twice_shows_no_difference(seed: int) -> None:
    found = compare(report(noisy(0.1)), report(noisy(0.1, seed=seed)), names=("a", "b"))
    assert {change.direction for change in found.changes} == {"no difference shown"}


def test_comparison_of_different_designs_is_refused() -> None:
    two = report(noisy(0.1), noisy(0.1, concurrency=2))
    with pytest.raises(UsageRefused, match="no point in common"):
        compare(two, report(noisy(0.1, concurrency=8), noisy(0.1, concurrency=9)), names=("a.json", "b.json"))


def test_comparison_warns_of_different_loads_and_invalid_points() -> None:
    broken = point_of(replace(closed_run(0.1, requests=500), client=replace(closed_run().client, cpu=0.99)))
    loaded = replace(noisy(0.1, concurrency=4), name="c=1")
    found = compare(report(broken), report(loaded), names=("a", "b"))
    assert [words.partition(":")[0] for words in found.warnings] == ["c=1, before", "c=1"]


@examples(25)
@given(
    means=st.lists(st.floats(0.001, 1000), min_size=1, max_size=3),
    requests=st.integers(0, 40),
    tokens=st.integers(0, 4),
)
def test_report_survives_its_file(means: list[float], requests: int, tokens: int) -> None:
    points = [
        point_of(
            closed_run(mean, requests=requests, tokens=tokens, billed=T4, factors={"mean": mean}),
            objectives=[parse_objective("p50_ms", 100)],
        )
        for mean in means
    ]
    written = report(*points, notes=("é",), objectives=("p50_ms <= 100",))
    text = to_json(written)
    assert from_json(text, "x.json") == written
    schema().validate(json.loads(text))


def test_schema_refuses_a_report_without_its_counts() -> None:
    fields = json.loads(to_json(report(noisy(0.1))))
    del fields["points"][0]["counts"]["sent"]
    with pytest.raises(jsonschema.ValidationError, match="'sent' is a required property"):
        schema().validate(fields)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "schema version 2; this lmi reads version 1"),
        ({"version": 0}, "schema version 0"),
        ({"schema": "other"}, "not a report of `lmi bench`"),
        ({"points": [{}]}, r"damaged report: points\[0\].name is missing"),
        ({"name": 7}, "damaged report: name is a whole number, not text"),
    ],
)
def test_other_files_are_refused(change: dict[str, object], words: str) -> None:
    fields = {**json.loads(to_json(report(noisy(0.1)))), **change}
    with pytest.raises(UsageRefused, match=words):
        from_json(json.dumps(fields), "x.json")


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_files_that_are_no_report_are_refused(text: str) -> None:
    with pytest.raises(UsageRefused, match=r"x\.json: not "):
        from_json(text, "x.json")


def test_price_in_another_currency_is_shown() -> None:
    point = point_of(closed_run(billed=replace(T4, price=Price(hourly=1, currency="EUR", source="x"))))
    assert costs(point)[0].words.startswith("EUR 55.6 per million requests")
