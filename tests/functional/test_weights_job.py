"""What a transfer job starts, by itself: an order that cannot be read, and the place among the instances."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.local_app import RECIPE, House


@pytest.mark.parametrize(
    ("order", "resources", "why"),
    [
        ("{}", "{}", "order.json: not an order"),
        ('{"schema": 9}', "{}", "order.json: an order of another lmi"),
        ("text", "{}", "order.json: Expecting value"),
    ],
)
def test_an_order_that_is_none_is_refused(house: House, order: str, resources: str, why: str) -> None:
    Path("order.json").write_text(order)
    Path("resources.json").write_text(resources)
    told = house.lmi("weights", "job", "order.json", "resources.json")
    assert told.code == 2
    assert why in told.err
    assert "SageMaker starts this" in told.err


def test_a_push_from_here_of_a_recipe_whose_weights_a_job_brings_says_what_to_do(house: House) -> None:
    Path("tiny.yaml").write_text(RECIPE + "weights: {via: job}\n")
    told = house.lmi("weights", "push", "tiny.yaml")
    assert told.code == 2
    assert "a job runs with the role" in told.err
    assert "--set weights.via=stream" in told.err
