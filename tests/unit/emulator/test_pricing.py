"""The emulated price list is the catalog's table."""

from __future__ import annotations

from lmi_deploy.catalog.packaged_prices import packaged
from lmi_deploy.emulator.services.pricing import LOCATIONS


def test_every_region_of_the_catalog_has_a_location_name() -> None:
    assert set(LOCATIONS) == set(packaged().regions)
