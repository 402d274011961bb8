"""Recorded hosting prices of instances: for users without permission to read AWS's price list."""

from __future__ import annotations

import datetime
import json
from functools import cache
from pathlib import Path

from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import PriceTable, RegionPrices


@cache
def packaged() -> PriceTable:
    """Each price with its own day or month: they were collected on the day of the table, not made then."""
    table = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="ascii"))
    collected = datetime.date.fromisoformat(table["date"])
    sources: dict[str, str] = table["sources"]
    regions = {
        region: RegionPrices(
            region=region,
            date=collected,
            source="packaged with lmi",
            hourly={
                instance: Price(
                    hourly=hourly,
                    currency="USD",
                    source=f"{sources[source]}, {date or 'undated'}",
                    date=date,
                )
                for instance, (hourly, date, source) in rows.items()
            },
        )
        for region, rows in table["usd_per_hour"].items()
    }
    return PriceTable(regions=regions)
