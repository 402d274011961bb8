"""Recorded hosting prices of instances: for users without permission to read AWS's price list."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from lmi_deploy.domain.observed_state import Price

STALE_DAYS: Final = 183
"""Half a year: AWS lowers prices of older types more often than that."""


def price(instance: str, region: str) -> Price | None:
    """Of an hour, on demand. None if the table has none: no price is guessed from another region's or from EC2's."""
    found = _table()["usd_per_hour"].get(region, {}).get(instance)
    if found is None:
        return None
    hourly, date, source = found
    return Price(hourly=hourly, currency="USD", source=f"{_table()['sources'][source]}, {date or 'undated'}")


def listed(region: str) -> Iterator[tuple[str, float, str]]:
    """Every instance that the table has for this region, with its hourly price and the price's day or month."""
    for instance, (hourly, date, _) in _table()["usd_per_hour"].get(region, {}).items():
        yield instance, hourly, date or _table()["date"]


def regions() -> tuple[str, ...]:
    """The regions in the table."""
    return tuple(_table()["usd_per_hour"])


def age_warning(today: datetime.date) -> str:
    """If the table is older than half a year: a sentence that says so; else empty."""
    collected = datetime.date.fromisoformat(_table()["date"])
    days = (today - collected).days
    if days <= STALE_DAYS:
        return ""
    return f"the packaged prices are of {collected}, {days} days ago: `lmi plan` of a recipe asks AWS's price list"


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="ascii"))
    return table
