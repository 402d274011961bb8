"""`lmi instances`: the types with accelerators, and those that fit a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.local_app import LocalApp
from tests.support.model_shapes import LLAMA_8B, LLAMA_70B, Table


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def write_config(app: LocalApp, table: Table) -> str:
    """On the Hub, without weights: config.json is enough."""
    app.hub.models["org/large"] = {"config.json": json.dumps(table).encode()}
    return "org/large"


def rows(app: LocalApp, *argv: str) -> list[dict[str, object]]:
    result = app.lmi("instances", *argv, "--json")
    assert result.code == 0, result.out
    return [line for line in result.lines if line["event"] == "row"]


def test_instances_lists_device_memory_and_price(app: LocalApp) -> None:
    found = {row["instance"]: row for row in rows(app)}
    assert "ml.m5.large" not in found
    g5 = found["ml.g5.12xlarge"]
    assert (g5["device"], g5["devices"], g5["device_gib"]) == ("NVIDIA A10G", 4, 21.98)
    assert found["ml.p5en.48xlarge"]["usd_per_hour"] is None


def test_fitting_instances_are_sorted_by_price_with_unpriced_last(app: LocalApp) -> None:
    found = rows(app, "--fits", write_config(app, LLAMA_70B))
    assert "ml.g5.2xlarge" not in {row["instance"] for row in found}
    prices = [row["usd_per_hour"] for row in found]
    known = [price for price in prices if price is not None]
    assert known == sorted(known)  # type: ignore[type-var]
    assert None not in prices[: len(known)]
    first = found[0]
    assert app.lmi("fit", "org/large", "--instance", str(first["instance"]), "--context", "4096").code == 0


@pytest.mark.parametrize("place", [0, -1])
def test_longest_context_shown_fits(app: LocalApp, place: int) -> None:
    row = rows(app, "--fits", write_config(app, LLAMA_8B), "--sequences", "4")[place]
    argv = ("fit", "org/large", "--instance", str(row["instance"]), "--sequences", "4", "--context")
    assert app.lmi(*argv, str(row["max_context"])).code == 0


def test_longer_context_needs_a_larger_instance(app: LocalApp) -> None:
    model = write_config(app, LLAMA_8B)
    short, long = rows(app, "--fits", model), rows(app, "--fits", model, "--context", "131072")
    assert {row["instance"] for row in long} < {row["instance"] for row in short}
    assert all(row["max_context"] == 131072 for row in long)


def test_fits_accepts_a_recipe(app: LocalApp) -> None:
    write_config(app, LLAMA_70B)
    Path("large.yaml").write_text(
        "name: l\nmodel_id: org/large\nengine: vllm\ninstance_type: ml.g5.2xlarge\n"
    )
    assert rows(app, "--fits", "large.yaml") == rows(app, "--fits", "org/large")


def test_model_that_cannot_be_judged_is_an_error(app: LocalApp) -> None:
    model = write_config(app, {**LLAMA_8B, "model_type": "tomorrow"})
    result = app.lmi("instances", "--fits", model)
    assert (result.code, result.out) == (1, "")
    assert "error: org/large: lmi does not know how model_type tomorrow uses memory\n  next: " in result.err


def test_model_that_fits_no_instance_gives_an_empty_list(app: LocalApp) -> None:
    huge = {**LLAMA_70B, "hidden_size": 2**17, "intermediate_size": 2**19}
    result = app.lmi("instances", "--fits", write_config(app, huge))
    assert (result.code, result.out) == (0, "")
    assert "0 instance types that hold org/large" in result.err


@pytest.mark.parametrize(("days", "stale"), [(100, False), (200, True)])
def test_prices_older_than_half_a_year_give_a_warning(app: LocalApp, days: int, stale: bool) -> None:
    app.clock.passed = days * 86400.0
    result = app.lmi("instances", "--json").result
    assert ("the packaged prices are of 2026-11-21" in result["warning"]) == stale
    note = "warning: the packaged prices are of" in app.lmi("instances").err
    assert note == stale
