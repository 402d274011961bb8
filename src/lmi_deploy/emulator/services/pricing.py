"""The price list of endpoints and processing jobs: the catalog's prices, of their days, in the form of today's list."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.catalog import packaged_prices
from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.wire.errors import ApiError

LOCATIONS: Final = {
    "eu-west-1": ("EU (Ireland)", "EU"),
    "us-east-1": ("US East (N. Virginia)", "USE1"),
    "us-west-2": ("US West (Oregon)", "USW2"),
}
"""The regions with prices in the catalog: their names in the list, and the first part of their usage types."""
USES: Final = {"Hosting": "Host", "Processing": "Processing"}
"""By component, how usage types name it (`USE1-Processing:ml.m5.xlarge`). Where both are quoted they cost the same."""
PAGE: Final = 100


def get_products(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    if params["ServiceCode"] != "AmazonSageMaker":
        raise ApiError("NotFoundException", "The requested resource can't be found.")
    requested = [(item["Field"], item["Value"]) for item in params.get("Filters", ())]
    found = [
        json.dumps(product)
        for product in _products()
        if all(_fits(product["product"], field, value) for field, value in requested)
    ]
    start = int(params.get("NextToken", "0"))
    stop = start + int(params.get("MaxResults", PAGE))
    more = str(stop) if stop < len(found) else None
    return {"FormatVersion": "aws_v1", "PriceList": found[start:stop], "NextToken": more}


def _products() -> Iterator[dict[str, Any]]:
    for region, listed in packaged_prices.packaged().regions.items():
        for kind, price in listed.hourly.items():
            day = f"{price.date or listed.date}-01"[:10]
            for use in USES:
                yield _product(region, kind, use, hourly=price.hourly, day=day)


def _product(region: str, kind: str, use: str, *, hourly: float, day: str) -> dict[str, Any]:
    sku = hashlib.sha256(f"{region} {kind} {use}".encode()).hexdigest()[:16].upper()
    rate = f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${hourly} per {use} {kind} hour in {LOCATIONS[region][0]}",
        "appliesTo": [],
        "pricePerUnit": {"USD": f"{hourly:.10f}"},
        "rateCode": rate,
    }
    term = {
        "sku": sku,
        "offerTermCode": "JRTCKXETXF",
        "effectiveDate": f"{day}T00:00:00Z",
        "priceDimensions": {rate: dimension},
        "termAttributes": {},
    }
    return {
        "product": {"productFamily": "ML Instance", "sku": sku, "attributes": _attributes(region, kind, use)},
        "serviceCode": "AmazonSageMaker",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
        "version": day.replace("-", "") + "000000",
        "publicationDate": f"{day}T00:00:00Z",
    }


def _attributes(region: str, kind: str, use: str) -> dict[str, str]:
    location, prefix = LOCATIONS[region]
    return {
        "servicecode": "AmazonSageMaker",
        "servicename": "Amazon SageMaker",
        "instanceName": kind,
        "instanceType": f"{kind}-{use}",
        "component": use,
        "platoinstancename": kind,
        "platoinstancetype": use,
        "regionCode": region,
        "location": location,
        "locationType": "AWS Region",
        "operation": "RunInstance",
        "usagetype": f"{prefix}-{USES[use]}:{kind}",
    }


def _fits(product: Mapping[str, Any], field: str, value: str) -> bool:
    observed = product["attributes"].get(field, product.get(field, ""))
    return bool(observed.lower() == value.lower())


OPERATIONS: Final[Mapping[str, Operation]] = {"GetProducts": get_products}
