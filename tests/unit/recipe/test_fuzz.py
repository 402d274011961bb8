"""A small run of tools/fuzz.py: any input of `parse` raises nothing but RecipeError."""

from __future__ import annotations

from tools import fuzz


def test_two_thousand_random_recipes_are_parsed_or_refused() -> None:
    report = fuzz.run(2000, seed=20)
    assert report.cases == report.good + report.refused == 2000
    assert min(report.good, report.refused) > 100
    assert set(report.kinds) == {maker.__name__ for maker in fuzz.MAKERS}
