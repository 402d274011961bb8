"""Silent, slow or hostile clients cost the server a limited time, and never a socket."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lmi_deploy.host.machine import PortReservations
from lmi_deploy.server.http.client_connection import Application, Exchange
from lmi_deploy.server.http.listener import Listener
from lmi_deploy.server.http.request_head_parser import ReceivedRequest
from lmi_deploy.server.http.request_reader import RequestReader, TimeLimits
from lmi_deploy.server.http.responses import Response
from lmi_deploy.server.http.socket_stream import SocketStream
from lmi_deploy.server.log import Log
from lmi_deploy.server.server_settings import ServerSettings

TIMEOUT = 60.0
SHORT = 0.1
LONG = 60.0


def limits(*, idle: float = LONG, head: float = LONG, body: float = LONG) -> ServerSettings:
    return ServerSettings(
        keys={}, time_limits=TimeLimits(idle=idle, head=head, body=body, slowest=1_000_000_000)
    )


@asynccontextmanager
async def listening(application: Application, settings: ServerSettings) -> AsyncIterator[Listener]:
    listener = Listener(settings, application, Log())
    listener.reserve("127.0.0.1", 0)
    await listener.open()
    try:
        yield listener
    finally:
        listener.close()
        listener.abort()


async def echo(exchange: Exchange) -> None:
    await exchange.reply(Response(200, body=exchange.request.body or b"none"))


async def until_closed(listener: Listener, *chunks: bytes, pause: float = 0.0) -> bytes:
    """All that the server sends until it closes the connection, on which it gets these chunks."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    reading = asyncio.create_task(received(reader))
    for chunk in chunks:
        if not reading.done():
            writer.write(chunk)
            await asyncio.sleep(pause)
    async with asyncio.timeout(TIMEOUT):
        body = await reading
    writer.close()
    return body


async def received(reader: asyncio.StreamReader) -> bytes:
    """All that arrives; a reset by a server that was not done reading is an end, too."""
    body = b""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65536):
            body += chunk
    return body


async def abandoned(listener: Listener) -> None:
    """Waits until the server keeps no connection."""
    async with asyncio.timeout(TIMEOUT):
        while listener.connections:
            await asyncio.sleep(0.01)


def send_bytes(settings: ServerSettings, *chunks: bytes, pause: float = 0.0, by: Application = echo) -> bytes:
    async def go() -> bytes:
        async with listening(by, settings) as listener:
            body = await until_closed(listener, *chunks, pause=pause)
            await abandoned(listener)
            return body

    return asyncio.run(go())


def test_idle_client_is_disconnected() -> None:
    assert send_bytes(limits(idle=SHORT)) == b""
    body = send_bytes(limits(idle=SHORT), b"GET / HTTP/1.1\r\n\r\n")
    assert body.startswith(b"HTTP/1.1 200 OK")
    assert body.endswith(b"none")


def test_empty_lines_do_not_keep_a_connection() -> None:
    assert send_bytes(limits(idle=SHORT), *[b"\r\n"] * 8, pause=SHORT / 4) == b""


def test_unfinished_head_is_408() -> None:
    drip = [b"GET / HTTP/1.1\r\n", *[b"X: y\r\n"] * 8]
    assert send_bytes(limits(head=SHORT), *drip, pause=SHORT / 4).startswith(
        b"HTTP/1.1 408 Request Timeout\r\n"
    )


@pytest.mark.parametrize("head", [b"Content-Length: 9", b"Transfer-Encoding: chunked"])
def test_missing_body_is_408(head: bytes) -> None:
    settings = dataclasses.replace(limits(body=SHORT), max_request_size=1000)
    body = send_bytes(settings, b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n")
    assert body.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_body_of_a_refused_request_is_not_waited_for() -> None:
    settings = dataclasses.replace(limits(body=SHORT), max_request_size=1000)
    settings = dataclasses.replace(settings, time_limits=TimeLimits(body=SHORT))
    # Whatever its length: a time limit that grew with it would never end.
    for length in (b"999999999", b"9223372036854775807"):
        body = send_bytes(settings, b"POST / HTTP/1.1\r\nContent-Length: " + length + b"\r\n\r\n")
        assert body.startswith(b"HTTP/1.1 413 ")


def test_half_closed_connection_is_answered() -> None:
    """The real server closes such a connection, and the response may be lost: RFC 9112, 9.6 lets a client do
    so."""

    async def go() -> bytes:
        async with listening(echo, limits()) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            writer.write_eof()
            async with asyncio.timeout(TIMEOUT):
                body = await reader.read()
            writer.close()
            return body

    assert asyncio.run(go()).endswith(b"none")


def test_trickling_chunks_do_not_extend_the_time_limit() -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = send_bytes(limits(body=4 * SHORT), head, *[b"1\r\na\r\n"] * 40, pause=SHORT / 4)
    assert body.startswith(b"HTTP/1.1 408")


def test_large_body_has_a_longer_time_limit() -> None:
    settings = dataclasses.replace(limits(), time_limits=TimeLimits(body=0.0, idle=SHORT, slowest=1))
    body = send_bytes(settings, b"POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\n", b"abc", b"def", pause=SHORT)
    assert body.endswith(b"abcdef")


def test_long_response_is_not_an_idle_connection() -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(4 * SHORT)
        await echo(exchange)

    body = send_bytes(limits(idle=SHORT), b"GET / HTTP/1.1\r\n\r\n" * 2, by=slow)
    assert body.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (b"GET /nope HTTP/1.1\r\n\r\n", 404),
        (b"nonsense\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nExpect: much\r\n\r\n", 417),
    ],
)
def test_requests_that_arrive_together_are_answered_in_order(second: bytes, status: int) -> None:
    async def slow_or_nothing(exchange: Exchange) -> None:
        if exchange.request.target == "/nope":
            await exchange.reply(Response(404))
            return
        await asyncio.sleep(SHORT)
        await echo(exchange)

    first = b"POST / HTTP/1.1\r\nX-Request-Id: a\r\nContent-Length: 5\r\n\r\nfirst"
    body = send_bytes(limits(idle=SHORT, body=SHORT), first + second, by=slow_or_nothing)
    assert body.startswith(b"HTTP/1.1 200 OK\r\nx-request-id: a\r\n")
    assert b"first" + b"HTTP/1.1 %d " % status in body


def test_chunks_of_one_byte_leave_their_turn_to_other_connections() -> None:
    size, turns = 20_000, 0

    async def counting() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def go() -> bytes:
        stream = SocketStream()
        stream.have += b"1\r\na\r\n" * size + b"0\r\n\r\n"
        request = ReceivedRequest("POST", "/", [("Transfer-Encoding", "chunked")])
        other = asyncio.create_task(counting())
        complete = await RequestReader(stream, max_body=size).body(request)
        other.cancel()
        return complete.body

    assert asyncio.run(go()) == b"a" * size
    assert turns > size / 100


def test_client_that_reads_nothing_is_disconnected() -> None:
    async def large(exchange: Exchange) -> None:
        await exchange.reply(Response(400, body=bytes(20_000_000)))

    async def go() -> None:
        async with listening(large, limits(body=SHORT)) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            while not listener.connections:
                await asyncio.sleep(0.01)
            await abandoned(listener)
            writer.transport.abort()

    asyncio.run(go())


def test_unexpected_exception_closes_the_connection_and_is_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def invalid(exchange: Exchange) -> None:
        raise KeyError("nobody thought of this")

    assert send_bytes(limits(), b"GET / HTTP/1.1\r\n\r\n", by=invalid) == b""
    assert "KeyError: 'nobody thought of this'" in (output := capsys.readouterr().out)
    assert "Traceback" in output
    assert send_bytes(limits(), b"GET / HTTP/1.1\r\n\r\n" * 2, by=invalid) == b""
    assert "KeyError" in capsys.readouterr().out
    unreadable = dataclasses.replace(limits(), max_request_size="much")  # type: ignore[arg-type]
    assert send_bytes(unreadable, b"GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n") == b""
    assert "TypeError" in capsys.readouterr().out


def test_port_with_recently_closed_connections_stays_a_loading_servers_own() -> None:
    """A server binds its port, then loads its model, and only then listens."""
    with socket.socket() as before:
        before.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        before.bind(("127.0.0.1", 0))
        before.listen()
        address = before.getsockname()
        with socket.create_connection(address) as client:
            accepted, _ = before.accept()
            accepted.close()
            client.recv(1)
    listener = Listener(limits(), echo, Log())
    listener.reserve("127.0.0.1", address[1])
    others = PortReservations("127.0.0.1", start=address[1])
    try:
        assert others.reserve("other") != address[1]
        assert listener.socket is not None
        listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.socket.listen()
    finally:
        others.release("other")
        listener.close()
