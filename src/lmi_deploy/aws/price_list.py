"""The port Prices: AWS's own list, which three regions serve for all regions of the partition `aws`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.retry import POLICY
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.errors import AccessError, CloudError, NotFound
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
        self._patient = Service(access, "pricing", region=near)
        self._region = region
        self._listed = partition == "aws"
        self._known = known
        self._asked: dict[tuple[str, Use], Price | None] = {}

    def hourly(self, instance: str, use: Use = "hosting") -> Price | None:
        key = (instance, use)
        if key not in self._asked:
            # A processing instance costs the same as a hosting instance, if both prices are known.
            self._asked[key] = self._request_price(instance, use) or self._known(instance, self._region)
        return self._asked[key]

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

    def listed(self, region: str) -> RegionPrices:
        if not self._listed:
            raise NotFound(
                f"{region}: AWS's price list has no prices for the partition of these credentials",
                hint="use credentials of the partition aws",
            )
        for key in _USE_KEYS:
            filters = {"regionCode": region, key: "Hosting"}
            if hourly := self._hosting(region, filters):
                today = self._patient.clock.now().date()
                return RegionPrices(
                    region=region, date=today, source="AWS price list", hourly=hourly, complete=True
                )
        raise NotFound(
            f"{region}: AWS's price list has no hosting prices for this region",
            hint="SageMaker may have no endpoints there; `lmi catalog` lists the prices that are known",
        )

    def _hosting(self, region: str, filters: Mapping[str, str]) -> dict[str, Price]:
        products = list(_products(self._patient, f"hosting prices of {region}", filters))
        try:
            return dict(_prices(products, "hosting"))
        except _UNREADABLE:
            raise CloudError(
                f"{region}: the answer of AWS's price list is not in its documented form",
                hint="the earlier prices are kept. Run the command again, or update lmi",
            ) from None


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
