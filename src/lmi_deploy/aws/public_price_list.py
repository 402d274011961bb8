"""The port PriceList: AWS's public list, which needs no credentials. It has a file for each region: tens of megabytes,
of which one line at a time is in memory.

https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html: five
lines about the list, a line with the names of the columns, then a line for each price. In the list's other form, JSON,
a price is far from its product, so that all products would have to be kept.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.errors import CloudError, NotFound
from lmi_deploy.host.deadline import within
from lmi_deploy.ports.clock import Clock

_HOST: Final = "https://pricing.us-east-1.amazonaws.com"
_FOLDER: Final = "/offers/v1.0/aws/AmazonSageMaker/current"
_CHUNK: Final = 1 << 16
_LONGEST: Final = 1 << 20
"""Characters of a line; AWS's have some thousand."""
_SECONDS: Final = 60
"""To connect, and without a byte."""
_HOSTING: Final = re.compile(r"(?:^|-)Host:(ml\.[\w-]+\.\w+)$")
"""The usage type of an instance of an endpoint: `USE1-Host:ml.g5.xlarge`."""
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, csv.Error)


class PublicPriceList:
    """At AWS_ENDPOINT_URL, if that names an emulator. AWS_ENDPOINT_URL_PRICING is the address of the API alone."""

    def __init__(self, environ: Mapping[str, str], clock: Clock) -> None:
        self._host = (environ.get("AWS_ENDPOINT_URL") or _HOST).rstrip("/")
        self._authorities = environ.get("AWS_CA_BUNDLE") or True
        self._clock = clock

    def regions(self) -> tuple[str, ...]:
        """Those with a file."""
        with self._opened("region_index.json", "its regions") as body:
            return tuple(sorted(json.loads(b"".join(body))["regions"]))

    def listed(self, region: str, *, seconds: float | None = None) -> RegionPrices:
        if seconds is None:
            return self._read(region, _SECONDS)
        # A name server that does not answer obeys no time-out.
        return within(seconds, "AWS's price list", lambda: self._read(region, seconds))

    def _read(self, region: str, timeout: float) -> RegionPrices:
        today = self._clock.now().date()
        with self._opened(f"{region}/index.csv", region, timeout) as body:
            hourly = _hosting_prices(_lines(body), today.isoformat())
        if not hourly:
            raise _no_prices(region)
        return RegionPrices(region=region, date=today, source="AWS price list", hourly=hourly, complete=True)

    @contextmanager
    def _opened(self, path: str, what: str, timeout: float = _SECONDS) -> Iterator[Iterator[bytes]]:
        """The bytes of a file; CloudError if it does not arrive, ends early or is of another form."""
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies
        from urllib3.exceptions import HTTPError

        url = f"{self._host}{_FOLDER}/{path}"
        session = URLLib3Session(
            verify=self._authorities, proxies=get_environ_proxies(url), timeout=(timeout, timeout)
        )
        request = AWSRequest("GET", url, headers={"Accept-Encoding": "gzip"}, stream_output=True).prepare()
        try:
            response = session.send(request)
            if response.status_code in (403, 404):  # S3, below it, answers 403 for a file that does not exist
                raise _no_prices(what)
            if response.status_code != 200:
                raise _unread(what, f"it answered {response.status_code}")
            yield response.raw.stream(_CHUNK, decode_content=True)
            _require_whole(response, what)
        except (BotoCoreError, HTTPError) as failure:
            raise _unread(what, " ".join(str(failure).split())[:300]) from failure
        except _UNREADABLE as failure:
            raise _unread(what, "it is not in its documented form") from failure
        finally:
            session.close()


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = ""
    for text in codecs.iterdecode(chunks, "utf-8"):
        *lines, rest = (rest + text).split("\n")
        yield from lines
        if len(rest) > _LONGEST:
            raise ValueError("a line without an end")
    if rest:
        yield rest


def _require_whole(response: Any, what: str) -> None:
    """botocore does not compare a body with its Content-Length."""
    length = response.headers.get("Content-Length")
    if length is not None and response.raw.tell() < int(length):
        raise _unread(what, f"it ended after {response.raw.tell():,} of {int(length):,} bytes")


def _hosting_prices(lines: Iterator[str], today: str) -> dict[str, Price]:
    """The prices of an hour on demand that count today, by instance type."""
    columns, published = _columns(csv.reader(lines))
    usage, term, amount, unit = (columns[name] for name in ("usagetype", "termtype", "priceperunit", "unit"))
    currency, effective = columns["currency"], columns["effectivedate"]
    since: dict[str, str] = {}
    hourly: dict[str, Price] = {}
    for row in csv.reader(line for line in lines if "Host:" in line):
        hosting = _HOSTING.search(row[usage])
        if row[term] != "OnDemand" or not hosting:
            continue
        instance, begins = hosting[1], row[effective][:10]
        is_hourly = row[unit].lower() in ("hrs", "hours") and float(row[amount]) > 0
        if is_hourly and since.get(instance, "") <= begins <= today:
            since[instance] = begins
            source = f"AWS price list of {published}"
            hourly[instance] = Price(
                hourly=float(row[amount]), currency=row[currency], source=source, date=published
            )
    return hourly


def _columns(rows: Iterable[list[str]]) -> tuple[dict[str, int], str]:
    """The places of the columns, by their names without blanks and capitals; and the day of the list."""
    published = ""
    for row in rows:
        if row[0] == "Publication Date":
            published = row[1][:10]
        elif row[0] == "SKU":
            return {re.sub(r"\W", "", title).lower(): place for place, title in enumerate(row)}, published
    raise LookupError("no names of columns")


def _no_prices(what: str) -> NotFound:
    return NotFound(
        f"{what}: AWS's price list has no hosting prices for this region",
        hint="SageMaker may have no endpoints there; `lmi catalog` lists the prices that are known",
    )


def _unread(what: str, why: str) -> CloudError:
    return CloudError(
        f"{what}: AWS's price list could not be read: {why}",
        hint="the earlier prices are kept. Run `lmi catalog refresh` again; check HTTPS_PROXY and AWS_CA_BUNDLE",
    )
