"""The port PriceCache: a JSON file for each region."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, Final

from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import PriceTable, RegionPrices
from lmi_deploy.host.disk import on_disk, write_atomically
from lmi_deploy.host.file_lock import file_lock

_SCHEMA: Final = 1
FRESH_DAYS: Final = 7
"""After these, `lmi init` and `lmi plan` read the list of a region again by themselves."""


class PriceFiles:
    """`<folder>/<region>.json`; what is in them came from AWS's price list, as a whole. `<region>.tried` has the day on
    which lmi last read the list by itself. `refreshed`: whether it may.
    """

    def __init__(self, folder: Path, *, refreshed: bool = True) -> None:
        self._folder = folder
        self._refreshed = refreshed

    def read(self) -> PriceTable:
        regions, problems = {}, []
        for path in sorted(self._folder.glob("*.json")):
            try:
                found = _parse(path.read_text(encoding="utf-8"))
                if found.region != path.stem:
                    raise ValueError(f"it has the prices of {found.region}")
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as reason:
                problems.append(_problem(path, reason))
            else:
                regions[found.region] = found
        return PriceTable(regions=regions, problems=tuple(problems))

    def write(self, prices: RegionPrices) -> None:
        path = self._folder / f"{prices.region}.json"
        with file_lock(path.with_suffix(".lock"), wait=True), on_disk(path):
            write_atomically(path, _text(prices))

    def start_refresh(self, region: str, today: datetime.date) -> bool:
        known, tried = self.read().regions.get(region), self._folder / f"{region}.tried"
        if not self._refreshed or (known and (today - known.date).days <= FRESH_DAYS):
            return False
        with on_disk(tried):
            if tried.exists() and tried.read_text(encoding="utf-8") == today.isoformat():
                return False
            tried.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(tried, today.isoformat())
        return True


def _text(prices: RegionPrices) -> str:
    rows = {name: [one.hourly, one.currency, one.date] for name, one in sorted(prices.hourly.items())}
    table = {
        "schema": _SCHEMA,
        "region": prices.region,
        "date": prices.date.isoformat(),
        "source": prices.source,
        "hourly": rows,
    }
    return json.dumps(table, indent=1) + "\n"


def _parse(text: str) -> RegionPrices:
    """ValueError, LookupError, TypeError or AttributeError if it is not what `_text` writes."""
    table: dict[str, Any] = json.loads(text)
    if table["schema"] != _SCHEMA:
        raise ValueError(f"schema {table['schema']} is not known to this lmi")
    source = str(table["source"])
    prices = {
        str(name): Price(
            hourly=float(hourly), currency=str(currency), source=f"{source} of {day}", date=str(day)
        )
        for name, (hourly, currency, day) in table["hourly"].items()
    }
    if not prices or not all(0 < price.hourly < float("inf") for price in prices.values()):
        raise ValueError("no prices, or a price that is not a positive number")
    date = datetime.date.fromisoformat(table["date"])
    return RegionPrices(region=str(table["region"]), date=date, source=source, hourly=prices, complete=True)


def _problem(path: Path, reason: Exception) -> str:
    why = reason.strerror if isinstance(reason, OSError) else "damaged"
    if isinstance(reason, ValueError) and not isinstance(reason, (json.JSONDecodeError, UnicodeError)):
        why = str(reason)
    refresh = f"`lmi catalog refresh --region {path.stem}` writes it again"
    return f"{path}: {why}; the packaged prices are used instead. {refresh}"
