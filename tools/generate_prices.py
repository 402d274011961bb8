"""Write AWS's hosting prices into catalog/prices.json, from its public price list.

`python -m tools.generate_prices [REGION...]`; without a region, every one that the list has and SageMaker serves. It
needs no credentials, and some minutes. The rows of a region that was read are replaced; all others stay, with the
source and the date that they have.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from lmi_deploy.aws.public_price_list import PublicPriceList
from lmi_deploy.catalog import instances, sagemaker_limits
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.errors import NotFound
from lmi_deploy.host.clock import SystemClock

TABLE: Final = Path(__file__).resolve().parents[1] / "src" / "lmi_deploy" / "catalog" / "prices.json"
Table = dict[str, Any]


def table(known: Mapping[str, Any], read: Iterable[RegionPrices], today: datetime.date) -> Table:
    """`known` with the regions that were read in place of its own. The table is of US dollars."""
    names, regions = instances.names(), dict(known["usd_per_hour"])
    for prices in read:
        regions[prices.region] = {
            name: [price.hourly, price.date, "public"]
            for name in names
            if (price := prices.hourly.get(name)) and price.currency == "USD"
        }
    sources = {**known["sources"], "public": "AWS's public price list"}
    used = {row[2] for rows in regions.values() for row in rows.values()}
    return {
        "date": today.isoformat(),
        "sources": {name: text for name, text in sources.items() if name in used},
        "usd_per_hour": dict(sorted(regions.items())),
    }


def written(table: Table) -> str:
    """A line for each price."""
    regions = ",\n".join(
        f"  {json.dumps(region)}: {{\n"
        + ",\n".join(f"   {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        + "\n  }"
        for region, rows in table["usd_per_hour"].items()
    )
    head = json.dumps({"date": table["date"], "sources": table["sources"]}, indent=1).removesuffix("\n}")
    return f'{head},\n "usd_per_hour": {{\n{regions}\n }}\n}}\n'


def main(regions: list[str]) -> None:
    listing = PublicPriceList(os.environ, SystemClock())
    read = []
    for region in regions or sorted({*listing.regions()} & {*sagemaker_limits.names("regions")}):
        try:
            read.append(listing.listed(region))
        except NotFound as absent:
            print(f"{region}: {absent.message}", file=sys.stderr)
        else:
            print(f"{region}: {len(read[-1].hourly)} prices", file=sys.stderr)
    known = json.loads(TABLE.read_text(encoding="ascii"))
    TABLE.write_text(
        written(table(known, read, datetime.datetime.now(datetime.UTC).date())), encoding="ascii"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
