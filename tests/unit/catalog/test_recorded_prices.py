"""Packaged prices: each with its date and source, none guessed."""

from __future__ import annotations

import json
from datetime import date

import pytest

from lmi_deploy.catalog import instances, sagemaker_limits
from lmi_deploy.catalog.packaged_prices import packaged
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import RegionPrices
from tools import generate_prices


def test_price_names_its_source_and_date() -> None:
    found = packaged().price("ml.m5.xlarge", "us-east-1")
    assert found is not None
    assert (found.hourly, found.currency) == (0.23, "USD")
    assert found.source == "AWS's price list, as public repositories quote it, 2026-09-28"
    assert found.date == "2026-09-28"


def test_unknown_price_is_none() -> None:
    assert packaged().price("ml.p5en.48xlarge", "us-east-1") is None
    assert packaged().price("ml.g5.xlarge", "eu-north-1") is None
    assert packaged().price("ml.g9.xlarge", "us-east-1") is None


@pytest.mark.parametrize("region", sorted(packaged().regions))
def test_every_price_is_of_a_known_type(region: str) -> None:
    assert region in sagemaker_limits.names("regions")
    known = {name: packaged().price(name, region) for name in instances.names()}
    hourly = [found.hourly for found in known.values() if found]
    assert hourly
    assert all(0.01 < each < 1000 for each in hourly)
    assert all(found.source for found in known.values() if found)


def test_generated_table_replaces_the_regions_that_were_read() -> None:
    kept = json.loads(generate_prices.TABLE.read_text())
    assert generate_prices.written(kept) == generate_prices.TABLE.read_text()
    hourly = {
        "ml.g5.xlarge": Price(hourly=1.5, currency="USD", source="s", date="2026-11-20"),
        "ml.unheard.of": Price(hourly=1.5, currency="USD", source="s", date="2026-11-20"),
        "ml.g5.2xlarge": Price(hourly=9.0, currency="CNY", source="s", date="2026-11-20"),
    }
    today = date(2026, 11, 22)
    read = [
        RegionPrices(region=region, date=today, source="AWS price list", hourly=hourly, complete=True)
        for region in ("eu-west-1", "eu-north-1")
    ]
    fresh = generate_prices.table(kept, read, today)
    row = {"ml.g5.xlarge": [1.5, "2026-11-20", "public"]}
    assert fresh["usd_per_hour"] == {**kept["usd_per_hour"], "eu-west-1": row, "eu-north-1": row}
    assert {*fresh["sources"]} == {*kept["sources"], "public"} - {"bill"}
    assert json.loads(generate_prices.written(fresh)) == fresh
