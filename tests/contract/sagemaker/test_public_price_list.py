"""AWS's public price list: read from the emulator, and from a server whose files are odd, large, packed or cut off."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lmi_deploy.aws.public_price_list import PublicPriceList
from lmi_deploy.catalog.packaged_prices import packaged
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.errors import CloudError, LmiError, NotFound
from lmi_deploy.host.clock import SystemClock
from tests.support.emulator_process import Emulated

HEAD = """\
"FormatVersion","v1.0"
"Disclaimer","This pricing list is for informational purposes only."
"Publication Date","2026-11-20T21:21:51Z"
"Version","20261120212151"
"OfferCode","AmazonSageMaker"
"SKU","TermType","PriceDescription","EffectiveDate","Unit","PricePerUnit","Currency","usageType"
"""


def row(name: str, usd: str = "1.5", *, use: str = "Host", **odd: str) -> str:
    fields = {"term": "OnDemand", "since": "2026-11-01", "unit": "Hrs", "currency": "USD", **odd}
    term, since, unit, currency = fields.values()
    return f'"K","{term}","of {name}, an hour","{since}","{unit}","{usd}","{currency}","USE1-{use}:{name}"\n'


def reader(address: str) -> PublicPriceList:
    return PublicPriceList({"AWS_ENDPOINT_URL": address}, SystemClock())


@contextmanager
def served(
    chunks: Iterable[bytes], *, status: int = 200, length: int | None = None, **headers: str
) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/offers/v1.0/aws/AmazonSageMaker/current/us-east-1/index.csv"
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(chunk)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def listed(text: str | bytes, **more: str) -> RegionPrices:
    data = text.encode() if isinstance(text, str) else text
    with served([data], length=len(data), **more) as address:
        return reader(address).listed("us-east-1")


def test_list_of_the_emulator_has_every_hosting_price_of_a_region(aws: Emulated) -> None:
    prices = reader(aws.url)
    found, known = prices.listed("us-west-2"), packaged().of("us-west-2")
    assert {name: price.hourly for name, price in found.hourly.items()} == {
        name: price.hourly for name, price in known.hourly.items()
    }
    assert (found.region, found.complete) == ("us-west-2", True)
    assert prices.regions() == ("eu-west-1", "us-east-1", "us-west-2")
    with pytest.raises(NotFound, match="eu-north-1: AWS's price list has no hosting prices"):
        prices.listed("eu-north-1")


def test_prices_are_those_of_hosting_by_the_hour_that_count_today() -> None:
    found = listed(
        HEAD
        + row("ml.a.xlarge", "1.25")
        + row("ml.a.xlarge", "9", use="Train")
        + row("ml.a.xlarge", "9", since="2999-01-01")
        + row("ml.a.xlarge", "9", since="2020-01-01")
        + row("ml.a.xlarge", "9", term="Reserved")
        + row("ml.a.xlarge", "9", unit="GB-Mo")
        + row("ml.b.xlarge", "0")
        + row("ml.m.xlarge-HostingParent", "9")
        + row("ml.c.xlarge", "7", currency="CNY")
    )
    source = "AWS price list of 2026-11-20"
    assert found.hourly == {
        "ml.a.xlarge": Price(hourly=1.25, currency="USD", source=source, date="2026-11-20"),
        "ml.c.xlarge": Price(hourly=7.0, currency="CNY", source=source, date="2026-11-20"),
    }


def test_packed_list_is_unpacked() -> None:
    packed = gzip.compress((HEAD + row("ml.a.xlarge")).encode())
    assert set(listed(packed, Content_Encoding="gzip").hourly) == {"ml.a.xlarge"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not in its documented form"),
        ("<html>", "not in its documented form"),
        (HEAD.replace('"PricePerUnit",', "") + row("ml.a.xlarge"), "not in its documented form"),
        (HEAD + row("ml.a.xlarge", "dear"), "not in its documented form"),
        (HEAD + '"K","OnDemand","Host:', "not in its documented form"),
        (b"\xff\xfe" + HEAD.encode(), "not in its documented form"),
        ("x" * (2 << 20), "not in its documented form"),
        (HEAD + row("ml.a.xlarge", use="Train"), "has no hosting prices"),
    ],
)
def test_list_of_another_form_is_an_error(text: str | bytes, why: str) -> None:
    with pytest.raises(LmiError, match=why):
        listed(text)


def test_list_that_ends_early_is_an_error_and_not_a_list_of_fewer_types() -> None:
    data = (HEAD + row("ml.a.xlarge")).encode()
    with (
        served([data], length=len(data) + 100) as address,
        pytest.raises(CloudError, match=r"ended after \d+ of"),
    ):
        reader(address).listed("us-east-1")


def test_other_answers_and_no_answer_are_errors() -> None:
    with served([], status=503, length=0) as address, pytest.raises(CloudError, match="it answered 503"):
        reader(address).listed("us-east-1")
    with pytest.raises(CloudError, match="could not be read: Could not connect"):
        reader(address).listed("us-east-1")


def test_list_that_takes_too_long_is_given_up() -> None:
    ends = threading.Event()

    def endless() -> Iterator[bytes]:
        yield HEAD.encode()
        ends.wait(10)

    with served(endless()) as address:
        try:
            with pytest.raises(LmiError, match=r"no response within 0\.2 s|timed out"):
                reader(address).listed("us-east-1", seconds=0.2)
        finally:
            ends.set()


def test_large_list_takes_little_memory() -> None:
    chunk = "".join(row(f"ml.a{n % 40}.xlarge", use="Host" if n % 8 == 0 else "Train") for n in range(1000))
    with served([HEAD.encode(), *[chunk.encode()] * 100]) as address:
        tracemalloc.start()
        try:
            prices = reader(address).listed("us-east-1")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(prices.hourly) == 5
    assert peak < 3 << 20 < len(chunk) * 50, peak
