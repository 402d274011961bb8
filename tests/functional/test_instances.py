"""`lmi instances`: the types with accelerators, and those that fit a model."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from lmi_deploy.catalog import instances
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import RegionPrices
from tests.support.local_app import LocalApp, on_terminal
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


def test_model_class_that_the_engine_lacks_is_refused(app: LocalApp) -> None:
    table = {**LLAMA_8B, "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}
    result = app.lmi("instances", "--fits", write_config(app, table))
    assert (result.code, result.out) == (2, "")
    assert "does not support T5ForConditionalGeneration, an encoder-decoder" in result.err
    Path("t5.yaml").write_text(
        "name: l\nmodel_id: org/large\nengine: accelerate\ninstance_type: ml.g5.xlarge\n"
    )
    assert rows(app, "--fits", "t5.yaml")


def test_model_that_fits_no_instance_gives_an_empty_list(app: LocalApp) -> None:
    huge = {**LLAMA_70B, "hidden_size": 2**17, "intermediate_size": 2**19}
    result = app.lmi("instances", "--fits", write_config(app, huge))
    assert (result.code, result.out) == (0, "")
    assert "0 instance types that hold org/large" in result.err


def test_prices_are_as_old_as_their_own_rows(app: LocalApp) -> None:
    """Most of the packaged ones are older than half a year, whenever they were collected."""
    (warning,) = app.lmi("instances", "--json").result["warnings"]
    assert "33 of 36 prices of us-east-1" in warning
    assert "the oldest of 2025-01-26: `lmi catalog refresh --region us-east-1`" in warning
    assert f"warning: {warning}" in app.lmi("instances").err


def test_undescribed_type_is_listed_as_unknown(app: LocalApp) -> None:
    found = {row["instance"]: row for row in rows(app)}["ml.p6e-gb200.36xlarge"]
    assert {found[key] for key in ("device", "devices", "memory_gib", "vcpu", "usd_per_hour")} == {None}
    assert found["offered"] == "unknown"


def test_all_lists_every_type(app: LocalApp) -> None:
    found = rows(app, "--all")
    assert len(found) == len(instances.names())
    small = {row["instance"]: row for row in found}["ml.m5.large"]
    assert (small["device"], small["devices"], small["vcpu"], small["memory_gib"]) == (None, 0, 2, 8)
    assert app.lmi("instances", "--all", "--fits", "org/large").code == 2


@pytest.mark.parametrize(
    ("family", "sizes"),
    [("g5", ("", "2", "4", "8", "12", "16", "24", "48")), ("p2", ("", "8", "16"))],  # p2: vCPUs are unknown
)
def test_types_of_a_family_are_listed_from_the_smallest_on(
    app: LocalApp, family: str, sizes: tuple[str, ...]
) -> None:
    listed = [row["instance"] for row in rows(app) if row["instance"].startswith(f"ml.{family}.")]
    assert listed == [f"ml.{family}.{size}xlarge" for size in sizes]


def test_rows_tell_whether_the_region_has_the_type_and_the_date_of_its_price(app: LocalApp) -> None:
    found = {row["instance"]: row for row in rows(app, "--region", "eu-west-1")}
    assert found["ml.g5.12xlarge"]["offered"] == "yes"
    assert (found["ml.g5.12xlarge"]["usd_per_hour"], found["ml.g5.12xlarge"]["price_date"]) == (
        7.91,
        "2023-12",
    )
    assert found["ml.g5.2xlarge"]["offered"] == "unknown", "EC2 has it, and no price of SageMaker's is known"
    assert found["ml.p5.48xlarge"]["offered"] == "no", "EC2 has none there"


def test_refreshed_prices_replace_the_packaged_ones_of_their_region(app: LocalApp) -> None:
    refresh(app, "us-east-1", {"ml.g5.xlarge": 0.5})
    found = {row["instance"]: row for row in rows(app)}
    assert (found["ml.g5.xlarge"]["usd_per_hour"], found["ml.g5.xlarge"]["offered"]) == (0.5, "yes")
    assert (found["ml.g5.2xlarge"]["usd_per_hour"], found["ml.g5.2xlarge"]["offered"]) == (None, "no")
    other = {row["instance"]: row for row in rows(app, "--region", "us-west-2")}
    assert other["ml.g5.2xlarge"]["usd_per_hour"] == 1.515
    assert app.lmi("instances", "--json").result["prices"] == {
        "source": "AWS price list",
        "date": "2026-11-22",
    }


def refresh(app: LocalApp, region: str, hourly: dict[str, float]) -> None:
    prices = {
        name: Price(hourly=usd, currency="USD", source="AWS price list of 2026-11-20", date="2026-11-20")
        for name, usd in hourly.items()
    }
    app.price_cache.write(
        RegionPrices(
            region=region, date=date(2026, 11, 22), source="AWS price list", hourly=prices, complete=True
        )
    )


def test_types_without_a_known_price_are_counted_with_the_way_to_it(app: LocalApp) -> None:
    model, way = write_config(app, LLAMA_70B), "us-east-1 may have: `lmi catalog refresh --region us-east-1`"
    result = app.lmi("instances", "--fits", model)
    assert "no price is known of " in result.err
    assert way in result.err
    refresh(app, "us-east-1", {"ml.p4d.24xlarge": 20})
    assert "no price is known of" not in app.lmi("instances", "--fits", model).err


def test_damaged_price_file_is_reported_and_not_used(app: LocalApp) -> None:
    refresh(app, "us-east-1", {"ml.g5.xlarge": 0.5})
    file = app.root / "cache" / "prices" / "us-east-1.json"
    file.write_text(file.read_text()[:100])
    result = app.lmi("instances")
    assert result.code == 0
    assert f"warning: {file}: damaged; the packaged prices are used instead" in result.err
    assert {row["instance"]: row["usd_per_hour"] for row in rows(app)}["ml.g5.xlarge"] == 1.4084


def test_region_without_known_prices_names_the_refresh(app: LocalApp) -> None:
    result = app.lmi("instances", "--region", "eu-north-1")
    assert result.code == 0
    assert "`lmi catalog refresh --region eu-north-1` reads AWS's price list" in result.err
    result = app.lmi("instances", "--region", "eu-nroth-1")
    assert result.code == 2
    assert "did you mean eu-north-1?" in result.err


def test_narrow_terminal_keeps_the_price_column(app: LocalApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = on_terminal(app, "instances")
    assert max(map(len, lines)) <= 80
    assert {"instance", "device", "devices", "offered", "usd_per_hour"} <= set(lines[0].split())
