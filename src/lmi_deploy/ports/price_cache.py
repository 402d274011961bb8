"""The user's own price tables, read from AWS's price list."""

from __future__ import annotations

import datetime
from typing import Protocol

from lmi_deploy.domain.price_table import PriceTable, RegionPrices


class PriceCache(Protocol):
    def read(self) -> PriceTable:
        """The regions that were refreshed. A file that cannot be read is a problem of the table, not an error."""

    def write(self, prices: RegionPrices) -> None:
        """In place of the region's earlier table, which stays until the new one is whole. DiskRefused."""

    def start_refresh(self, region: str, today: datetime.date) -> bool:
        """Whether `lmi` shall read the region's prices now by itself: those here are older than a week, it has not
        tried to today, and the user does not forbid it. The attempt is noted. DiskRefused.
        """
