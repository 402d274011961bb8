"""Distributions, percentiles and tests, against published values and plain lists."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.bench.histogram import Histogram
from lmi_deploy.bench.percentiles import needed_count, percentile
from lmi_deploy.bench.probability import binomial_at_most, proportion_interval, t_quantile
from lmi_deploy.bench.significance import Measured, holm, mann_whitney, ratio_of_means

SECONDS = st.floats(0, 1e4, allow_nan=False)
SAMPLES = st.lists(SECONDS, min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [(0.975, 1, 12.706), (0.975, 19, 2.093), (0.995, 5, 4.032), (0.95, 30, 1.697), (0.975, 1e7, 1.960)],
)
def test_quantiles_of_student_are_those_of_the_printed_tables(
    probability: float, degrees: float, expected: float
) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(expected, abs=6e-4)
    assert t_quantile(1 - probability, degrees) == -t_quantile(probability, degrees)


@given(n=st.integers(1, 60), k=st.integers(-1, 60), p=st.floats(0.01, 0.99))
def test_binomial_is_the_sum_of_its_terms(n: int, k: int, p: float) -> None:
    terms = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(min(k, n) + 1))
    assert binomial_at_most(k, n, p) == pytest.approx(terms, abs=1e-9)


def test_binomial_holds_for_a_million_requests() -> None:
    assert binomial_at_most(990_000, 1_000_000, 0.99) == pytest.approx(0.5, abs=0.01)


def test_interval_of_a_rate_that_was_never_seen_is_not_zero() -> None:
    low, high = proportion_interval(0, 10, 0.95)
    assert (low, round(high, 4)) == (0.0, 0.2775)


@pytest.mark.parametrize(
    ("quantile", "at_95", "at_99"), [(0.9, 29, 44), (0.95, 59, 90), (0.99, 299, 459), (0.999, 2995, 4603)]
)
def test_needed_counts_are_those_of_the_early_stopping_test(quantile: float, at_95: int, at_99: int) -> None:
    assert (needed_count(quantile), needed_count(quantile, 0.99)) == (at_95, at_99)


@pytest.mark.parametrize(("n", "is_supported"), [(298, False), (299, True)])
def test_p99_is_supported_from_the_needed_count(n: int, is_supported: bool) -> None:
    found = percentile(Histogram.of([i / 1000 for i in range(n)]), 0.99)
    assert found is not None
    assert found.is_supported is is_supported
    assert (found.high is not None) is is_supported


def test_bounds_of_the_median_are_those_of_the_sign_test() -> None:
    """Of 20 values the ranks 6 and 15 bound the median at 97.9 % on each side (0.0207 below)."""
    found = percentile(Histogram.of(range(1, 21)), 0.5)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((10, 6, 15), rel=5e-4)


@given(values=SAMPLES, quantile=st.sampled_from([0.1, 0.5, 0.9, 0.99]))
def test_percentile_is_the_nearest_rank_of_the_sorted_list(values: list[float], quantile: float) -> None:
    found = percentile(Histogram.of(values), quantile)
    exact = sorted(values)[max(math.ceil(quantile * len(values) - 1e-9), 1) - 1]
    assert found is not None
    assert found.value == pytest.approx(exact, rel=5e-4, abs=1e-6)
    assert found.low is None or found.low <= found.value
    assert found.high is None or found.high >= found.value


@given(first=st.lists(SECONDS, max_size=50), second=st.lists(SECONDS, max_size=50))
def test_merged_histograms_are_the_histogram_of_both(first: list[float], second: list[float]) -> None:
    merged, both = Histogram.of(first).merged(Histogram.of(second)), Histogram.of([*first, *second])
    assert (merged.counts, merged.n, merged.high) == (both.counts, both.n, both.high)
    assert merged.low == both.low
    if both.n:
        assert merged.mean == pytest.approx(both.mean)
    if both.n > 1:
        assert merged.deviation == pytest.approx(both.deviation, rel=1e-6, abs=1e-6)


@given(value=st.floats(0, 1e6, allow_nan=False))
def test_a_bucket_is_half_a_per_mille_wide(value: float) -> None:
    # Many other values, so that the least and the greatest do not correct it.
    sample = Histogram.of([0.0, value, 1e7])
    assert sample.ranked(2) == pytest.approx(value, rel=5e-4, abs=0.51e-6)


def test_mann_whitney_of_a_small_sample_is_exact() -> None:
    """The example of SciPy's own page: U = 17, p = 0.1111."""
    found = mann_whitney(Histogram.of([20, 11, 17, 12]), Histogram.of([19, 22, 16, 29, 24]))
    assert found is not None
    assert (round(found.p_value, 4), found.superiority * 20, found.is_exact) == (0.1111, 17, True)


@given(
    first=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    second=st.lists(st.integers(1, 6), min_size=1, max_size=5),
)
def test_exact_test_counts_every_arrangement(first: list[int], second: list[int]) -> None:
    def distance(a: list[int], b: list[int]) -> float:
        wins = sum((y > x) + (y == x) / 2 for x in a for y in b)
        return abs(wins - len(a) * len(b) / 2)

    pool, far, total = [*first, *second], 0, 0
    for chosen in itertools.combinations(range(len(pool)), len(first)):
        a = [pool[i] for i in chosen]
        b = [pool[i] for i in range(len(pool)) if i not in chosen]
        far, total = far + (distance(a, b) >= distance(first, second) - 1e-9), total + 1
    found = mann_whitney(Histogram.of(first), Histogram.of(second))
    assert found is not None
    assert found.p_value == pytest.approx(far / total)


def test_dependent_values_make_the_test_more_careful() -> None:
    first, second = Histogram.of(i / 100 for i in range(200)), Histogram.of(i / 100 + 0.2 for i in range(200))
    plain, careful = mann_whitney(first, second), mann_whitney(first, second, inflation=(10, 10))
    assert plain is not None
    assert careful is not None
    assert plain.p_value < 0.01 < 0.2 < careful.p_value


def test_ratio_has_the_interval_of_both_errors() -> None:
    found = ratio_of_means(Measured(mean=10, error=0.1, n=1000), Measured(mean=5, error=0.05, n=1000), 0.95)
    assert found is not None
    assert (found.ratio, round(found.low, 3), round(found.high, 3)) == (0.5, 0.486, 0.514)
    assert ratio_of_means(Measured(mean=0, error=0, n=9), Measured(mean=5, error=1, n=9), 0.95) is None


def test_holm_corrects_each_test_for_their_number() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
