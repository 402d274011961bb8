"""Requests parsed from bytes: what the real server's parser accepts and what it refuses."""

from __future__ import annotations

import asyncio

import pytest

from lmi_deploy.server.http.request_head_parser import MalformedRequest, ReceivedRequest
from lmi_deploy.server.http.request_reader import BadExpectation, RequestReader, TooLarge
from tests.support.stream_pair import stream_of


def read(raw: bytes, *, max_body: int = 1000) -> tuple[ReceivedRequest | None, bytes]:
    """The request in `raw`, and what was written to the client meanwhile."""

    async def go() -> tuple[ReceivedRequest | None, bytes]:
        async with stream_of(raw) as (stream, client):
            reader = RequestReader(stream, max_body=max_body)
            request = await reader.head()
            if request is not None:
                request = await reader.body(request)
            stream.close()
            await stream.closed()
            return request, client.recv(100)

    return asyncio.run(go())


def test_ordinary_request_is_parsed() -> None:
    request, _ = read(b"POST /x?a=1 HTTP/1.1\r\nHost: h\r\nX-Two:  b \r\nContent-Length: 3\r\n\r\nabc")
    assert request == ReceivedRequest(
        "POST", "/x?a=1", [("Host", "h"), ("X-Two", "b"), ("Content-Length", "3")], b"abc"
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /ping HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /ping HTTP/1.1\nHost: x\n\n",
        b"\r\n\r\nGET /ping HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_tolerated_request_is_parsed(raw: bytes) -> None:
    request, _ = read(raw)
    assert request is not None
    assert (request.target, request.headers) == ("/ping", [("Host", "x")])


def test_folded_header_is_one_value() -> None:
    request, _ = read(b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n")
    assert request is not None
    assert request.header("host") == "x folded"


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /ping\r\n\r\n",
        b"garbage\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Header: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /" + b"a" * 4096 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 8192 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 9223372036854775808\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n80000000\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 4000 + b"\r\n",
    ],
)
def test_malformed_request_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read(raw)


def test_chunked_body_overrides_content_length() -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    request, _ = read(head + b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n")
    assert request is not None
    assert (request.body, request.sized, request.header("content-length")) == (b"abcde", False, None)


@pytest.mark.parametrize(
    "codings",
    [("gzip, chunked",), ("identity",), ("chunked, chunked",), ("chunked", "chunked"), ("xchunked",), ("",)],
)
def test_invalid_transfer_encoding_is_refused(codings: tuple[str, ...]) -> None:
    head = "".join(f"Transfer-Encoding: {coding}\r\n" for coding in codings).encode()
    with pytest.raises(MalformedRequest):
        read(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n" + head + b"\r\n1\r\na\r\n0\r\n\r\n")


def test_leading_zeros_of_content_length_are_ignored() -> None:
    request, _ = read(b"POST / HTTP/1.1\r\nContent-Length: " + b"0" * 3000 + b"2\r\n\r\nab")
    assert request is not None
    assert request.body == b"ab"


def test_expect_continue_is_answered_before_the_body_is_read() -> None:
    request, written = read(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na")
    assert request is not None
    assert (request.body, written) == (b"a", b"HTTP/1.1 100 Continue\r\n\r\n")
    with pytest.raises(BadExpectation):
        read(b"POST / HTTP/1.1\r\nExpect: 200-ok\r\n\r\n")


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n" + b"a" * 1001, True),
        (b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n", False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n", False),
    ],
)
def test_body_over_the_limit_is_refused(raw: bytes, kept: bool) -> None:
    with pytest.raises(TooLarge) as caught:
        read(raw)
    assert (caught.value.skip is not None) is kept


def test_closed_connection_is_no_request() -> None:
    assert read(b"") == (None, b"")
