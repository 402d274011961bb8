"""Packaged prices: each with its date and source, none guessed."""

from __future__ import annotations

import pytest

from lmi_deploy.catalog import instances, sagemaker_limits
from lmi_deploy.catalog.packaged_prices import packaged


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
