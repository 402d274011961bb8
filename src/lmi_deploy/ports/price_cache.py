"""The user's own price tables, read from AWS's price list by `lmi catalog refresh`."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.price_table import PriceTable, RegionPrices


class PriceCache(Protocol):
    def read(self) -> PriceTable:
        """The regions that were refreshed. A file that cannot be read is a problem of the table, not an error."""

    def write(self, prices: RegionPrices) -> None:
        """In place of the region's earlier table, which stays until the new one is whole. DiskRefused."""
