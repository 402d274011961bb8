"""This machine's clock is hours behind AWS's: what expires, and what it cost, is judged by AWS's."""

from __future__ import annotations

import json

import pytest

from tests.integration.sagemaker.test_killed_processes import FIRST, UP, KilledRun, killed_run

pytestmark = pytest.mark.landing
__all__ = ["killed_run"]  # created by the fixture


def test_deployment_lives_as_long_as_its_recipe_says(killed_run: KilledRun) -> None:
    killed_run.recipe(FIRST + "ttl: 6h\n")
    killed_run.aws.advance(12 * 3600)
    killed_run.done(*UP)
    killed_run.done("gc", "--yes")
    assert killed_run.remaining()["endpoints"] == ["tiny"]
    rows = [json.loads(line) for line in killed_run.done("cost", "--json").splitlines()]
    assert 0 < rows[0]["hours"] < 5
    killed_run.done("extend", "tiny", "6h")
    killed_run.aws.advance(5 * 3600)
    killed_run.done("gc", "--yes")
    assert killed_run.remaining()["endpoints"] == ["tiny"]
    killed_run.aws.advance(2 * 3600)
    killed_run.done("gc", "--yes")
    assert killed_run.remaining()["endpoints"] == []
