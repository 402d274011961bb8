"""The port Prices: AWS's own list, which is in us-east-1 for all regions of the partition `aws`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.errors import AccessError, CloudError
from lmi_deploy.ports.prices import Use

PackagedPrice = Callable[[str, str], Price | None]
"""The packaged price of an instance type in a region."""
_AT: Final = "us-east-1"


class AwsPrices:
    """One request per instance type; the packaged table is the fallback."""

    def __init__(
        self, access: AwsConnection, *, region: str, partition: str, packaged: PackagedPrice
    ) -> None:
        # A price is good to know, and not worth waiting for.
        self._api = Service(replace(access, attempts=2, rounds=1, read_seconds=15.0), "pricing", region=_AT)
        self._region = region
        self._listed = partition == "aws"
        self._packaged = packaged
        self._known: dict[tuple[str, Use], Price | None] = {}

    def hourly(self, instance: str, use: Use = "hosting") -> Price | None:
        key = (instance, use)
        if key not in self._known:
            # A processing instance costs the same as a hosting instance, if both prices are known.
            self._known[key] = self._request_price(instance, use) or self._packaged(instance, self._region)
        return self._known[key]

    def _request_price(self, instance: str, use: Use) -> Price | None:
        if not self._listed:
            return None
        required = {"instanceName": instance, "regionCode": self._region}
        try:
            products = list(
                self._api.pages(
                    "get_products",
                    f"price of {instance}",
                    token="NextToken",
                    items="PriceList",
                    ServiceCode="AmazonSageMaker",
                    Filters=[
                        {"Type": "TERM_MATCH", "Field": key, "Value": value}
                        for key, value in required.items()
                    ],
                )
            )
        except (AccessError, CloudError):
            return None
        try:
            return next(_prices(products, use), None)
        except (ValueError, LookupError, TypeError, AttributeError):
            return None  # not the list's own form: not worth an error


def _prices(products: list[str], use: Use) -> Iterator[Price]:
    """Prices of an hour; the list has every use of an instance, as `component` Hosting, Processing, Training and
    others.
    """
    for product in map(json.loads, products):
        attributes = product["product"]["attributes"]
        uses = {attributes.get(key, "").lower() for key in ("component", "platoinstancetype")}
        if use not in uses:
            continue
        terms = product.get("terms", {}).get("OnDemand", {}).values()
        for dimension in (dimension for term in terms for dimension in term["priceDimensions"].values()):
            currency, amount = next(iter(dimension["pricePerUnit"].items()))
            if dimension["unit"].lower() in ("hrs", "hours") and float(amount) > 0:
                day = str(product.get("publicationDate", ""))[:10]
                yield Price(hourly=float(amount), currency=currency, source=f"AWS price list of {day}")
