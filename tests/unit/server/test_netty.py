"""How the real server's HTTP library parses odd requests, and how ours does.

netty.json was written by io.netty:netty-codec-http:4.1.119.Final (HttpServerCodec, HttpObjectAggregator,
QueryStringDecoder, HttpPostRequestDecoder), put together as DJLServing's ServerInitializer and RequestParser
do; run 2026-11-22. In it, `⟨a*50⟩` means `a` fifty times. Intended differences: tests/server/differences.txt.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.client_connection import ClientConnection, Exchange
from lmi_deploy.server.http.handler_input import read_input
from lmi_deploy.server.log import Log
from lmi_deploy.server.server_settings import ServerSettings

RUN = re.compile("\u27e8(.)\\*(\\d+)\u27e9", re.DOTALL)
CHOICES = Path(__file__).parents[2] / "server" / "differences.txt"
DECODED = ("query", "path", "form", "multipart")  # the other cases check what becomes of the headers
MALFORMED = b"HTTP/1.1 400 Invalid HTTP message."


def written_out(learned: Any) -> Any:
    if isinstance(learned, str):
        return RUN.sub(lambda run: run[1] * int(run[2]), learned)
    if isinstance(learned, list):
        return [written_out(one) for one in learned]
    if isinstance(learned, dict):
        return {name: written_out(one) for name, one in learned.items()}
    return learned


def cases() -> dict[str, dict[str, Any]]:
    learned = json.loads((Path(__file__).parent / "netty.json").read_text(encoding="utf-8"))
    return {case["case"]: case for case in written_out(learned)}


CASES = cases()


def choices() -> list[str]:
    rows = [line.split("|") for line in CHOICES.read_text(encoding="utf-8").splitlines()]
    return [row[1].strip() for row in rows if row[0].strip() == "netty"]


def answered(raw: bytes, *, max_body: int = 64 * 1024 * 1024) -> tuple[list[Exchange], bytes]:
    """The requests that are parsed, and the bytes written to a client that sent only them."""
    requests: list[Exchange] = []

    async def note(exchange: Exchange) -> None:
        requests.append(exchange)

    async def go() -> bytes:
        local, existing = socket.socketpair()
        with existing:
            existing.sendall(raw)
            existing.shutdown(socket.SHUT_WR)
            settings = ServerSettings(keys={}, max_request_size=max_body)
            connection = ClientConnection(settings, note, lambda opened: None, Log())
            await asyncio.get_running_loop().create_connection(lambda: connection, sock=local)
            async with asyncio.timeout(30):
                await connection.run()
            written = b""
            while chunk := existing.recv(65536):
                written += chunk
            return written

    return requests, asyncio.run(go())


def understood(exchange: Exchange) -> dict[str, Any]:
    request = exchange.request
    try:
        found = read_input(request, "id")
    except ErrorReply as refusal:
        return {"refused": {"type": refusal.kind, "message": refusal.message}}
    properties = sorted([name, value] for name, value in found.properties() if name != "requestId")
    content = [[name, blob.decode("latin-1")] for name, blob in found.content]
    return {"properties": properties, "content": content}


def ours(case: dict[str, Any]) -> dict[str, Any]:
    requested, written = answered(case["bytes"].encode("latin-1"))
    requests: list[dict[str, Any]] = [
        {"line": f"{one.request.method} {one.request.target}", **understood(one)} for one in requested
    ]
    before, malformed, _ = written.partition(MALFORMED)
    if malformed:
        requests.append({"bad": True})
    if case["case"].partition(":")[0] in DECODED:
        for request in requests:
            request.pop("properties", None)
    return {"requests": requests, "written": before.decode("latin-1")}


def netty(case: dict[str, Any]) -> dict[str, Any]:
    requests = [
        {**request, "properties": sorted(request["properties"])} if "properties" in request else request
        for request in case["requests"]
    ]
    return {"requests": requests, "written": case["written"]}


def test_requests_are_parsed_like_netty_or_differ_as_listed() -> None:
    assert len(CASES) > 500
    different = {
        name: {"ours": found, "netty": wanted}
        for name, case in CASES.items()
        if (found := ours(case)) != (wanted := netty(case))
    }
    listed = {name for name in CASES if any(fnmatchcase(name, choice) for choice in choices())}
    assert {name: both for name, both in different.items() if name not in listed} == {}
    assert listed - {*different} == set(), "listed in differences.txt, but equal by now"


def test_every_listed_difference_is_a_case() -> None:
    assert [choice for choice in choices() if not any(fnmatchcase(name, choice) for name in CASES)] == []


def form(kind: str, body: bytes) -> list[Exchange]:
    head = f"POST /invocations HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return answered(head.encode() + body)[0]


@pytest.mark.parametrize(
    ("kind", "field", "end"),
    [
        ("application/x-www-form-urlencoded", b"a=1&", b""),
        (
            "multipart/form-data; boundary=B",
            b"--B\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n",
            b"--B--",
        ),
    ],
)
def test_form_over_128_fields_is_refused(kind: str, field: bytes, end: bytes) -> None:
    (exchange,) = form(kind, field * 128 + end)
    assert understood(exchange)["content"] == [["a", "1"]] * 128
    (exchange,) = form(kind, field * 129 + end)
    assert understood(exchange)["refused"] == {"type": "TooManyFormFieldsException", "message": None}


def test_query_parameters_beyond_1024_are_dropped() -> None:
    (exchange,), _ = answered(b"GET /invocations?" + b"a&" * 1024 + b"b HTTP/1.1\r\n\r\n")
    assert understood(exchange)["content"] == [["a", ""]] * 1024 + [["data", ""]]


LARGE = b"HTTP/1.1 413 Request Entity Too Large\r\ncontent-length: 0\r\n"
CLOSING = LARGE + b"connection: close\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "body", "output", "goes_on"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 11\r\n", b"x" * 11, LARGE + b"\r\n", True),
        (
            b"POST / HTTP/1.0\r\nConnection: Keep-Alive\r\nContent-Length: 11\r\n",
            b"x" * 11,
            LARGE + b"\r\n",
            True,
        ),
        (
            b"POST / HTTP/1.1\r\nConnection: closex\r\nContent-Length: 11\r\n",
            b"x" * 11,
            LARGE + b"\r\n",
            True,
        ),
        (b"POST / HTTP/1.1\r\nConnection: x, Close\r\nContent-Length: 11\r\n", b"", CLOSING, False),
        (b"POST / HTTP/1.0\r\nContent-Length: 11\r\n", b"", CLOSING, False),
        (b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 11\r\n", b"", CLOSING, False),
        (b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 11\r\n", b"", LARGE + b"\r\n", False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", b"b\r\n" + b"x" * 11, CLOSING, False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", b"6\r\n123456\r\n6\r\n12345", CLOSING, False),
    ],
)
def test_body_over_the_limit_is_413_as_in_netty(
    head: bytes, body: bytes, output: bytes, goes_on: bool
) -> None:
    requests, written = answered(head + b"\r\n" + body + NEXT, max_body=10)
    assert written == output
    assert [exchange.request.target for exchange in requests] == ["/next"] * goes_on


def test_malformed_request_is_answered_with_its_request_id() -> None:
    _, written = answered(b"HEAD /x HTTP/1.1\r\nx-request-id: mine\r\nContent-Length: 1, 1\r\n\r\n")
    head, _, body = written.partition(b"\r\n\r\n")
    assert b"\r\nx-request-id: mine\r\n" in head
    assert body == b""
    for raw in (b"X(: 1\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n"):
        assert b"x-request-id: mine" in answered(b"GET /x HTTP/1.1\r\nx-request-id: mine\r\n" + raw)[1]


def test_content_length_of_twenty_digits_is_malformed() -> None:
    _, written = answered(b"POST /x HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n")
    assert written.startswith(MALFORMED)
