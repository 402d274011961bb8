"""The price list of endpoints and processing jobs: the catalog's prices, of their days, in the form of today's list.

It is an API, and a public file for each region.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from lmi_deploy.catalog import packaged_prices
from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.wire.errors import ApiError

_LOCATIONS: Final = {
    "eu-west-1": ("EU (Ireland)", "EU"),
    "us-east-1": ("US East (N. Virginia)", "USE1"),
    "us-west-2": ("US West (Oregon)", "USW2"),
}
"""Regions by their names in the list, and the first part of their usage types; of others a test needs none."""
USES: Final = {"Hosting": "Host", "Processing": "Processing"}
"""By component, how usage types name it (`USE1-Processing:ml.m5.xlarge`). Where both are quoted they cost the same."""
PAGE: Final = 100
PUBLIC: Final = "/offers/v1.0/aws/AmazonSageMaker/current/"
"""Where the files are; their requests have no signature."""
_VERSION: Final = "20261121000000"
_PRICE_COLUMNS: Final = (
    *("SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "StartingRange"),
    *("EndingRange", "Unit", "PricePerUnit", "Currency", "Product Family"),
)
_PRODUCT_COLUMNS: Final = {
    "serviceCode": "servicecode",
    "Location": "location",
    "Location Type": "locationType",
    "Component": "component",
    "Instance Name": "instanceName",
    "Instance Type": "instanceType",
    "operation": "operation",
    "usageType": "usagetype",
    "Region Code": "regionCode",
    "serviceName": "servicename",
}
"""Of a file: the attributes of products by the titles that public readers of these files know."""


def get_products(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    if params["ServiceCode"] != "AmazonSageMaker":
        raise ApiError("NotFoundException", "The requested resource can't be found.")
    requested = [(item["Field"], item["Value"]) for item in params.get("Filters", ())]
    found = [
        json.dumps(product)
        for product in _products(context)
        if all(_fits(product["product"], field, value) for field, value in requested)
    ]
    start = int(params.get("NextToken", "0"))
    stop = start + int(params.get("MaxResults", PAGE))
    more = str(stop) if stop < len(found) else None
    return {"FormatVersion": "aws_v1", "PriceList": found[start:stop], "NextToken": more}


def public_file(context: EmulatorContext, path: str) -> web.Response:
    """https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-fetching-bulk-api.html"""
    regions = packaged_prices.packaged().regions
    if path == "region_index.json":
        return web.json_response({"regions": {region: {"regionCode": region} for region in regions}})
    region, _, name = path.partition("/")
    if region not in regions or name != "index.csv":
        return web.Response(
            status=403, text="<Error><Code>AccessDenied</Code></Error>", content_type="text/xml"
        )
    return web.Response(text=_file(context, region), content_type="application/octet-stream")


def _file(context: EmulatorContext, region: str) -> str:
    text = io.StringIO()
    rows = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow(["FormatVersion", "v1.0"])
    rows.writerow(["Disclaimer", "An emulator's, of no account."])
    rows.writerow(["Publication Date", _published(context)])
    rows.writerow(["Version", _VERSION])
    rows.writerow(["OfferCode", "AmazonSageMaker"])
    rows.writerow([*_PRICE_COLUMNS, *_PRODUCT_COLUMNS])
    for product in _products(context):
        (term,), attributes = product["terms"]["OnDemand"].values(), product["product"]["attributes"]
        ((rate, dimension),) = term["priceDimensions"].items()
        if attributes["regionCode"] == region:
            amount, family = dimension["pricePerUnit"]["USD"], product["product"]["productFamily"]
            span = (term["effectiveDate"][:10], dimension["beginRange"], dimension["endRange"])
            price = (term["sku"], term["offerTermCode"], rate, "OnDemand", dimension["description"], *span)
            rows.writerow(
                [*price, dimension["unit"], amount, "USD", family]
                + [attributes[name] for name in _PRODUCT_COLUMNS.values()]
            )
    return text.getvalue()


def _products(context: EmulatorContext) -> Iterator[dict[str, Any]]:
    published = _published(context)
    for region, listed in packaged_prices.packaged().regions.items():
        for kind, price in listed.hourly.items():
            since = f"{price.date or listed.date}-01"[:10]
            for use in USES:
                product = _product(region, kind, use, hourly=price.hourly, since=since)
                yield {**product, "publicationDate": published}


def _published(context: EmulatorContext) -> str:
    """Today: AWS publishes a list every few days, most of whose prices have been the same for years."""
    return f"{datetime.fromtimestamp(context.clock.now(), UTC):%Y-%m-%d}T00:00:00Z"


def _product(region: str, kind: str, use: str, *, hourly: float, since: str) -> dict[str, Any]:
    sku = hashlib.sha256(f"{region} {kind} {use}".encode()).hexdigest()[:16].upper()
    rate = f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${hourly} per {use} {kind} hour in {_location(region)[0]}",
        "appliesTo": [],
        "pricePerUnit": {"USD": f"{hourly:.10f}"},
        "rateCode": rate,
    }
    term = {
        "sku": sku,
        "offerTermCode": "JRTCKXETXF",
        "effectiveDate": f"{since}T00:00:00Z",
        "priceDimensions": {rate: dimension},
        "termAttributes": {},
    }
    return {
        "product": {"productFamily": "ML Instance", "sku": sku, "attributes": _attributes(region, kind, use)},
        "serviceCode": "AmazonSageMaker",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
        "version": _VERSION,
    }


def _location(region: str) -> tuple[str, str]:
    return _LOCATIONS.get(region, (region, region.upper()))


def _attributes(region: str, kind: str, use: str) -> dict[str, str]:
    location, prefix = _location(region)
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
