"""The port Prices: the Price List API, which three regions serve for all regions of the partition `aws`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.retry import POLICY
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.errors import AccessError, CloudError
from lmi_deploy.ports.prices import Use

KnownPrice = Callable[[str, str], Price | None]
"""The price of an instance type in a region, as this machine knows it."""
_NEAR: Final = {"eu": "eu-central-1", "ap": "ap-south-1"}
"""Which of the three serves a region, by the first part of its name: the others are served by us-east-1."""
_USE_KEYS: Final = ("platoinstancetype", "component")
"""The attributes that name a use: Hosting, Processing, Training and others. Products have one of them or both."""
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError)


class AwsPrices:
    """One request per instance type; what this machine knows is the fallback."""

    def __init__(self, access: AwsConnection, *, region: str, partition: str, known: KnownPrice) -> None:
        near = _NEAR.get(region.partition("-")[0], "us-east-1")
        # A price is good to know, and not worth waiting for.
        self._quick = Service(
            replace(access, attempts=2, retries=replace(POLICY, attempts=1), read_seconds=15.0),
            "pricing",
            region=near,
        )
        self._region = region
        self._listed = partition == "aws"
        self._known = known
        self._asked: dict[tuple[str, Use], Price | None] = {}

    def hourly(self, instance: str, use: Use = "hosting") -> Price | None:
        key = (instance, use)
        if key not in self._asked:
            self._asked[key] = self._request_price(instance, use)
        # A processing instance costs the same as a hosting instance, if both prices are known.
        return self._asked[key] or self._known(instance, self._region)

    def _request_price(self, instance: str, use: Use) -> Price | None:
        if not self._listed:
            return None
        filters = {"instanceName": instance, "regionCode": self._region}
        try:
            products = list(_products(self._quick, f"price of {instance}", filters))
        except (AccessError, CloudError):
            return None
        try:
            return next((price for _, price in _prices(products, use)), None)
        except _UNREADABLE:
            return None  # not the list's own form: not worth an error


def _products(api: Service, what: str, filters: Mapping[str, str]) -> Iterator[str]:
    yield from api.pages(
        "get_products",
        what,
        token="NextToken",
        items="PriceList",
        ServiceCode="AmazonSageMaker",
        Filters=[{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in filters.items()],
    )


def _prices(products: list[str], use: Use) -> Iterator[tuple[str, Price]]:
    """Instance types with their price of an hour."""
    for product in map(json.loads, products):
        attributes = product["product"]["attributes"]
        if use in {attributes.get(key, "").lower() for key in _USE_KEYS}:
            day = str(product.get("publicationDate", ""))[:10]
            for hourly, currency in _hourly(product.get("terms", {})):
                price = Price(hourly=hourly, currency=currency, source=f"AWS price list of {day}", date=day)
                yield str(attributes["instanceName"]), price


def _hourly(terms: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    for term in terms.get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            currency, amount = next(iter(dimension["pricePerUnit"].items()))
            if dimension["unit"].lower() in ("hrs", "hours") and float(amount) > 0:
                yield float(amount), currency
