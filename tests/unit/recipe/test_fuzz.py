"""A small run of tools/fuzz.py: any input of `parse` raises nothing but RecipeError."""

from __future__ import annotations

from tests.support.hypothesis_settings import scaled_count
from tools import fuzz


def test_random_recipes_are_parsed_or_refused() -> None:
    cases = scaled_count(2000)
    report = fuzz.run(cases, seed=20)
    assert report.cases == report.good + report.refused == cases
    assert min(report.good, report.refused) > cases // 20
    assert set(report.kinds) == {maker.__name__ for maker in fuzz.MAKERS}
