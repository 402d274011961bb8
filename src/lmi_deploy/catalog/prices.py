"""Recorded hosting prices of instances: for users without permission to read AWS's price list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from lmi_deploy.domain.observed import Price


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


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="ascii"))
    return table
