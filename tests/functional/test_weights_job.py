"""The program of a transfer job: an unreadable request, and its position among the instances."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.local_app import RECIPE, LocalApp


@pytest.mark.parametrize(
    ("order", "resources", "why"),
    [
        ("{}", "{}", "order.json: not a job request"),
        ('{"schema": 9}', "{}", "order.json: written by another version of lmi"),
        ("text", "{}", "order.json: Expecting value"),
    ],
)
def test_invalid_job_request_is_refused(app: LocalApp, order: str, resources: str, why: str) -> None:
    Path("order.json").write_text(order)
    Path("resources.json").write_text(resources)
    result = app.lmi("weights", "job", "order.json", "resources.json")
    assert result.code == 2
    assert why in result.err
    assert "SageMaker starts this" in result.err


def test_push_of_a_recipe_with_a_transfer_job_says_what_to_do(app: LocalApp) -> None:
    Path("tiny.yaml").write_text(RECIPE + "weights: {via: job}\n")
    result = app.lmi("weights", "push", "tiny.yaml")
    assert result.code == 2
    assert "a transfer job needs the role" in result.err
    assert "--set weights.via=stream" in result.err
