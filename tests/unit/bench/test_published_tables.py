"""The errors of five published tables are found by the consistency checks, and their correct rows pass."""

from __future__ import annotations

import pytest

from lmi_deploy.bench.consistency_checks import (
    Row,
    check_cost,
    check_input_length,
    check_littles_law,
    check_objectives_reported,
    check_order,
    check_ratio,
    check_same_load,
    check_sample_size,
    check_saturation,
    check_step_time,
)

PYTORCH = [
    (1, 2.4, 632, 105, 417),
    (2, 3.1, 919, 168, 636),
    (3, 3.4, 1911, 222, 890),
    (4, 3.4, 2458, 277, 1172),
]
TENSORRT = [(1, 7.0, 275, 22, 143), (2, 7.2, 274, 51, 361), (3, 7.3, 548, 49, 404), (4, 7.5, 765, 62, 531)]


def row(concurrency: int, qps: float, greatest: float, least: float, mean: float) -> Row:
    """Of the GPT-2 table: latencies in milliseconds."""
    return Row(
        name=f"c={concurrency}",
        concurrency=concurrency,
        rate=qps / 1000,
        mean=mean,
        least=least,
        greatest=greatest,
    )


@pytest.mark.parametrize("figures", [*PYTORCH, TENSORRT[0], *TENSORRT[2:]])
def test_rows_that_can_be_true_pass(figures: tuple[float, ...]) -> None:
    law = check_littles_law(row(*figures))  # type: ignore[arg-type]
    assert law is not None
    assert law.state == check_order(row(*figures)).state == "ok"  # type: ignore[arg-type]


def test_mean_of_361_is_refused_and_275_would_fit() -> None:
    """TensorRT at concurrency 2: the mean and its difference to PyTorch (636 - 361) were exchanged."""
    broken = row(*TENSORRT[1])
    law = check_littles_law(broken)
    assert law is not None
    assert (law.state, "2.6 in flight, of 2" in law.text) == ("invalid", True)
    assert "a mean of 278 would fit" in law.text
    order = check_order(broken)
    assert (order.state, order.text) == (
        "invalid",
        "the mean 361 is above the greatest 274: no sample has both",
    )
    corrected = row(2, 7.2, 274, 51, 275)
    law = check_littles_law(corrected)
    assert law is not None
    assert law.state == "ok"
    # The greatest is still 1 ms below the mean: it is wrong, too.
    assert check_order(corrected).state == "invalid"


def test_percentiles_out_of_order_are_refused() -> None:
    found = check_order(Row(percentiles={0.5: 327.39, 0.9: 331.01, 0.99: 330.0}))
    assert (found.state, found.text) == ("invalid", "p90 331 is above p99 330: no sample has both")


def test_tensorrt_was_saturated_by_one_client() -> None:
    found = check_saturation([row(*figures) for figures in TENSORRT])
    assert found is not None
    assert "saturated at concurrency 1 (throughput +7% for 4x the load)" in found.text
    assert check_saturation([Row(concurrency=c, rate=c * 10.0) for c in (1, 2, 4)]) is None


def test_objective_on_p99_that_is_never_reported_is_an_error() -> None:
    """T5 on Triton: the objective is P99 < 50 ms, and the table has means only."""
    (found,) = check_objectives_reported([0.99], [0.5])
    assert (found.state, found.text) == ("invalid", "the objective is on p99, and no p99 is reported")
    assert check_objectives_reported([0.99], [0.5, 0.99]) == []


@pytest.mark.parametrize(("n", "count"), [(20, 2), (200, 1), (299, 0)])
def test_percentiles_of_few_requests_are_refused(n: int, count: int) -> None:
    """GPT-J: 20 requests a cell; no P95 can be printed."""
    found = check_sample_size(Row(percentiles={0.95: 1.0, 0.99: 2.0}, n=n), 0.95)
    assert [check.state for check in found] == ["invalid"] * count


def test_percentiles_without_the_number_of_requests_are_doubted() -> None:
    """FLAN-T5: P50 327.39, P90 331.01, P99 612.73, and no number of requests."""
    (found,) = check_sample_size(Row(percentiles={0.5: 327.39, 0.9: 331.01, 0.99: 612.73}), 0.95)
    assert (found.state, found.text) == ("warning", "p50, p90, p99 without the number of requests behind it")


def test_280_ms_a_step_is_not_30_s_for_500_tokens() -> None:
    found = check_step_time(step=0.28, steps=500, total=30)
    assert found.state == "invalid"
    assert found.text == "500 steps of 0.28 s are 2 min 20 s, not 30.0 s; 60 ms a step would fit"
    assert check_step_time(step=1 / 21.9, steps=500, total=22.8).state == "ok"


@pytest.mark.parametrize(
    ("before", "after", "printed", "state"),
    [
        (30.71, 7.54, 407.40, "invalid"),
        (30.71, 7.54, 4.07, "ok"),
        (417, 143, 2.9, "ok"),
        (636, 361, 2.9, "invalid"),
    ],
)
def test_ratio_in_percent_is_not_a_ratio(before: float, after: float, printed: float, state: str) -> None:
    found = check_ratio("TensorRT", before=before, after=after, printed=printed)
    assert found.state == state
    assert ("that is the ratio in percent" in found.text) == (printed > 100)


BERT = [  # instance, sentences/s, dollars of a million
    ("inf1.xlarge", 245, 0.42),
    ("inf1.xlarge", 291, 0.35),
    ("inf1.6xlarge", 974, 0.54),
    ("inf1.6xlarge", 1793, 0.30),
    ("g4dn.xlarge", 149, 0.98),
    ("inf1.xlarge", 985, 0.10),
    ("inf1.xlarge", 945, 0.11),
    ("inf1.6xlarge", 3880, 0.14),
    ("inf1.6xlarge", 2302, 0.23),
    ("g4dn.xlarge", 422, 0.35),
]
HOURLY = {"inf1.xlarge": 0.368, "inf1.6xlarge": 1.904, "g4dn.xlarge": 0.526}


@pytest.mark.parametrize(("instance", "rate", "printed"), BERT)
def test_costs_of_the_bert_table_can_be_recomputed(instance: str, rate: float, printed: float) -> None:
    assert check_cost(instance, hourly=HOURLY[instance], rate=rate, printed=printed).state == "ok"
    assert check_cost(instance, hourly=HOURLY[instance] * 1.4, rate=rate, printed=printed).state == "invalid"


def test_one_client_against_one_per_core_is_not_the_same_load() -> None:
    """BERT at batch 1: the GPU was driven by 1.2 requests in flight, Inf1 by 4 and 16."""
    rows = [
        Row(name="g4dn.xlarge", rate=149, mean=0.0082),
        Row(name="inf1.xlarge", rate=245, mean=0.0165),
        Row(name="inf1.6xlarge", rate=974, mean=0.0166),
    ]
    found = check_same_load(rows)
    assert found is not None
    assert (found.state, "g4dn.xlarge 1.2, inf1.6xlarge 16" in found.text) == ("warning", True)
    same = check_same_load([Row(name="a", rate=100, mean=0.04), Row(name="b", rate=50, mean=0.08)])
    assert same is not None
    assert same.state == "ok"


@pytest.mark.parametrize(
    ("asked", "counted", "state"),
    [(50, 50, "ok"), (50, 69, "ok"), (1000, 1049, "ok"), (1000, 2000, "warning")],
)
def test_prompts_of_another_length_than_asked_for_are_reported(
    asked: int, counted: float, state: str
) -> None:
    assert check_input_length(asked=asked, counted=counted).state == state
