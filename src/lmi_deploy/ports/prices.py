"""The price of an instance hour, and AWS's public list of them."""

from __future__ import annotations

from typing import Literal, Protocol

from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import RegionPrices

Use = Literal["hosting", "processing"]
"""The purpose of an instance: AWS's list has a price for each."""


class Prices(Protocol):
    def hourly(self, instance: str, use: Use = "hosting") -> Price | None:
        """On demand, in our region: by AWS's price list, else as this machine knows it. None: unknown."""


class PriceList(Protocol):
    def listed(self, region: str, *, seconds: float | None = None) -> RegionPrices:
        """Every hosting price of a region, by AWS's public price list, which needs no credentials. CloudError, also if
        it takes longer than `seconds`; NotFound if it has none.
        """
