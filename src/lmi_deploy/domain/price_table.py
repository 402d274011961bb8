"""Hosting prices by region: the packaged ones, and those that the user read from AWS's price list."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.observed_state import Price

STALE_DAYS: Final = 183
"""Half a year: AWS lowers prices of older types more often than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPrices:
    """Of an hour, on demand, by instance type.

    `complete`: this is AWS's whole list, so that the region does not offer a type that has no price here.
    """

    region: str
    date: datetime.date
    """When the list was read or, if packaged, collected: its prices may be older."""
    source: str
    hourly: Mapping[str, Price] = field(default_factory=dict)
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """No price is guessed from another region's or from EC2's."""

    regions: Mapping[str, RegionPrices]
    problems: tuple[str, ...] = ()
    """Files of the user's cache that cannot be read, and why."""

    def price(self, instance: str, region: str) -> Price | None:
        """None if it is unknown."""
        found = self.regions.get(region)
        return found.hourly.get(instance) if found else None

    def of(self, region: str) -> RegionPrices:
        """Those of a region; without any price if none is known."""
        return self.regions.get(region) or RegionPrices(region=region, date=datetime.date.max, source="")

    def complete_or(self, region: str, fallback: str) -> RegionPrices:
        """Those of `region` if they are complete, else those of `fallback`."""
        found = self.regions.get(region)
        return found if found and found.complete else self.of(fallback)

    def overlaid(self, other: PriceTable) -> PriceTable:
        """With the regions of `other` in place of those here."""
        return PriceTable(
            regions={**self.regions, **other.regions}, problems=(*self.problems, *other.problems)
        )

    def warnings(self, today: datetime.date, region: str) -> tuple[str, ...]:
        """What cannot be read, and prices of the region that are older than half a year."""
        age = _age_warning(self.regions[region], today) if region in self.regions else ""
        return (*self.problems, *filter(None, [age]))


def is_old(price: Price, today: datetime.date) -> bool:
    """Whether it is older than half a year, or nothing says how old it is."""
    day = _day(price)
    return day is None or (today - day).days > STALE_DAYS


def _day(price: Price) -> datetime.date | None:
    """Of a month its first day."""
    try:
        return datetime.date.fromisoformat(f"{price.date}-01"[:10])
    except ValueError:
        return None


def reads_the_list(region: str) -> str:
    """What to do about prices that are old or unknown."""
    return f"`lmi catalog refresh --region {region}` reads AWS's price list"


def _age_warning(prices: RegionPrices, today: datetime.date) -> str:
    old = [price for price in prices.hourly.values() if is_old(price, today)]
    if not old:
        return ""
    oldest = min(filter(None, map(_day, old)), default="unknown date")
    return (
        f"{len(old)} of {counted(len(prices.hourly), 'price')} of {prices.region} are older than half a year or of "
        f"unknown age, the oldest of {oldest}: {reads_the_list(prices.region)}"
    )
