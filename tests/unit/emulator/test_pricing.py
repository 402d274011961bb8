"""The emulated price list is the catalog's table."""

from __future__ import annotations

from lmi_deploy.catalog import recorded_prices
from lmi_deploy.emulator.services.pricing import LOCATIONS


def test_it_can_name_each_region_of_the_catalog() -> None:
    assert set(LOCATIONS) == set(recorded_prices.regions())
