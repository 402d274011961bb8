"""The price list of endpoint instances: one region's prices, of a day long past, in the form of today's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.world import Ask, Operation, World

REGION: Final = "us-east-1"
LOCATION: Final = "US East (N. Virginia)"
PAGE: Final = 100


def get_products(world: World, ask: Ask) -> Mapping[str, Any]:
    params = ask.params
    if params["ServiceCode"] != "AmazonSageMaker":
        raise ApiError("NotFoundException", "The requested resource can't be found.")
    wanted = [(item["Field"], item["Value"]) for item in params.get("Filters", ())]
    found = [
        json.dumps(product)
        for product in _products()
        if all(_fits(product["product"], field, value) for field, value in wanted)
    ]
    start = int(params.get("NextToken", "0"))
    stop = start + int(params.get("MaxResults", PAGE))
    more = str(stop) if stop < len(found) else None
    return {"FormatVersion": "aws_v1", "PriceList": found[start:stop], "NextToken": more}


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = json.loads(Path(__file__).with_name("prices.json").read_text("ascii"))
    return table


def _products() -> Iterator[dict[str, Any]]:
    for kind, price in _table()["usd_per_hour"].items():
        sku = hashlib.sha256(kind.encode()).hexdigest()[:16].upper()
        yield {
            "product": {"productFamily": "ML Instance", "sku": sku, "attributes": _attributes(kind)},
            "serviceCode": "AmazonSageMaker",
            "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": _term(sku, kind, price)}},
            "version": _table()["date"].replace("-", "") + "000000",
            "publicationDate": f"{_table()['date']}T00:00:00Z",
        }


def _attributes(kind: str) -> dict[str, str]:
    return {
        "servicecode": "AmazonSageMaker",
        "servicename": "Amazon SageMaker",
        "instanceName": kind,
        "instanceType": f"{kind}-Hosting",
        "component": "Hosting",
        "platoinstancename": kind,
        "platoinstancetype": "Hosting",
        "regionCode": REGION,
        "location": LOCATION,
        "locationType": "AWS Region",
        "operation": "RunInstance",
        "usagetype": f"USE1-Host:{kind}",
    }


def _term(sku: str, kind: str, price: float) -> dict[str, Any]:
    rate = f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "rateCode": rate,
        "description": f"${price} per Hosting {kind} hour in {LOCATION}",
        "appliesTo": [],
        "pricePerUnit": {"USD": f"{price:.10f}"},
    }
    return {
        "sku": sku,
        "offerTermCode": "JRTCKXETXF",
        "effectiveDate": f"{_table()['date']}T00:00:00Z",
        "priceDimensions": {rate: dimension},
        "termAttributes": {},
    }


def _fits(product: Mapping[str, Any], field: str, value: str) -> bool:
    seen = product["attributes"].get(field, product.get(field, ""))
    return bool(seen.lower() == value.lower())


OPERATIONS: Final[Mapping[str, Operation]] = {"GetProducts": get_products}
