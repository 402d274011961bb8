"""The head of a response leaves with what follows it; what a client may send without the key is limited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from lmi_deploy.proxy.asgi_request import KEY_ACCEPTED
from lmi_deploy.proxy.uvicorn_protocol import (
    BODY_SECONDS,
    HEAD_SECONDS,
    LARGEST_HEAD,
    MOST_HEADERS,
    MOST_PIPELINED,
    JoinedWrites,
    ProxyProtocol,
)

POST = b"POST / HTTP/1.1\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
PIECE = 16_384


class RecordingTransport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


def run(*calls: Any) -> list[bytes]:
    """Each call gets the transport; None is a turn of the loop."""

    async def use() -> list[bytes]:
        transport = RecordingTransport()
        joined = JoinedWrites(transport, asyncio.get_running_loop())  # type: ignore[arg-type]
        for call in calls:
            if call is None:
                await asyncio.sleep(0)
            else:
                call(joined)
        return transport.written

    return asyncio.run(use())


def write(data: bytes) -> Any:
    return lambda joined: joined.write(data)


def test_head_and_body_are_one_write() -> None:
    assert run(write(b"HTTP/1.1 200 OK\r\n\r\n"), write(b"body"), write(b"more")) == [
        b"HTTP/1.1 200 OK\r\n\r\nbody",
        b"more",
    ]


def test_head_alone_leaves_with_the_next_turn_of_the_loop() -> None:
    assert run(write(b"HTTP/1.1 100 Continue\r\n\r\n"), None, write(b"body")) == [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"body",
    ]


def test_head_leaves_before_the_connection_is_closed() -> None:
    assert run(write(b"HTTP/1.1 204 No Content\r\n\r\n"), lambda joined: joined.close(), None) == [
        b"HTTP/1.1 204 No Content\r\n\r\n"
    ]


class Connection:
    """A protocol with its transport."""

    def __init__(self, app: Any, unverified: dict[ProxyProtocol, None] | None = None) -> None:
        self.transport = RecordingTransport()
        config = Config(app, ws="none", lifespan="off", log_config=None)
        config.load()
        self.protocol = ProxyProtocol(
            config=config,
            server_state=ServerState(),
            app_state={},
            unverified={} if unverified is None else unverified,
            most_unverified=2,
        )
        self.protocol.connection_made(self.transport)  # type: ignore[arg-type]
        self.opened_at = self.protocol.loop.time()

    def send(self, data: bytes) -> int:
        """How many bytes it took, piece by piece, until it closed the connection."""
        for at in range(0, len(data), PIECE):
            if self.transport.closed:
                return at
            self.protocol.data_received(data[at : at + PIECE])
        return len(data)

    def closed_after(self, seconds: float) -> bool:
        self.protocol.end_if_late(self.opened_at + seconds)
        return self.transport.closed

    async def output(self) -> bytes:
        for _ in range(100):
            await asyncio.sleep(0)
        return b"".join(self.transport.written)


async def read_all(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the size of the body."""
    size = 0
    while (message := await receive())["type"] == "http.request":
        size += len(message["body"])
        if not message["more_body"]:
            break
    await answer(send, b"%d" % size)


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, b"no")


async def accept(scope: Any, receive: Any, send: Any) -> None:
    scope["extensions"][KEY_ACCEPTED]()
    await answer(send, b"yes")


async def answer(send: Any, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


def connected(use: Callable[[Connection], Awaitable[None]], app: Any = read_all) -> None:
    async def go() -> None:
        await use(Connection(app))

    asyncio.run(go())


@pytest.mark.parametrize(
    ("head", "endless"),
    [
        (b"GET /", b"a" * 10 * LARGEST_HEAD),
        (POST + b"X: ", b"a" * 10 * LARGEST_HEAD),
        (POST, b"X: y\r\n" * 10 * MOST_HEADERS),
        (CHUNKED + b"1\r\na\r\n0\r\n", b"X: y\r\n" * 10 * MOST_HEADERS),
        (CHUNKED + b"1\r\na\r\n0\r\nX: ", b"a" * 10 * LARGEST_HEAD),
        (CHUNKED + b"1;", b"a" * 10 * LARGEST_HEAD),
    ],
)
def test_head_and_trailers_are_limited(head: bytes, endless: bytes) -> None:
    async def use(connection: Connection) -> None:
        assert connection.send(head + endless) <= LARGEST_HEAD + 2 * PIECE
        assert (await connection.output()).startswith(b"HTTP/1.1 400 ")

    connected(use)


def test_body_in_small_chunks_is_not_a_long_head() -> None:
    async def use(connection: Connection) -> None:
        connection.send(CHUNKED + b"1\r\na\r\n" * LARGEST_HEAD + b"0\r\n\r\n")
        assert (await connection.output()).endswith(b"\r\n\r\n%d" % LARGEST_HEAD)
        assert not connection.transport.closed

    connected(use)


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        (b"", HEAD_SECONDS),
        (b"GET / HT", HEAD_SECONDS),
        (POST + b"Content-Length: 9\r\n\r\n1234", BODY_SECONDS),
        (CHUNKED + b"1\r\na\r\n", BODY_SECONDS),
    ],
)
def test_request_that_is_not_complete_in_time_is_408(sent: bytes, seconds: float) -> None:
    async def use(connection: Connection) -> None:
        connection.send(sent)
        assert not connection.closed_after(seconds - 1)
        assert connection.closed_after(seconds + 1)
        assert (await connection.output()).startswith(b"HTTP/1.1 408 ")

    connected(use)


def test_time_of_a_body_grows_with_its_size() -> None:
    async def use(connection: Connection) -> None:
        connection.send(POST + b"Content-Length: 9999999\r\n\r\n" + bytes(819_200))
        assert not connection.closed_after(BODY_SECONDS + 99)
        assert connection.closed_after(BODY_SECONDS + 101)

    connected(use)


def test_rest_of_a_refused_body_gets_no_more_time() -> None:
    async def use(connection: Connection) -> None:
        connection.send(POST + b"Content-Length: 9999999\r\n\r\n")
        assert (await connection.output()).endswith(b"no")
        connection.send(bytes(819_200))
        assert connection.closed_after(BODY_SECONDS + 1)

    connected(use, app=refuse)


def test_long_response_is_not_a_late_request() -> None:
    async def never(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(3600)

    async def use(connection: Connection) -> None:
        connection.send(b"GET / HTTP/1.1\r\n\r\n\r\n")
        await connection.output()
        assert not connection.closed_after(3600)

    connected(use, app=never)


@pytest.mark.parametrize("second", [b"nonsense\r\n\r\n", POST + b"X: y\r\n" * 300])
def test_bad_request_after_a_good_one_does_not_take_its_response(second: bytes) -> None:
    async def use(connection: Connection) -> None:
        connection.send(POST + b"Content-Length: 5\r\n\r\nfirst" + second)
        output = await connection.output()
        assert output.startswith(b"HTTP/1.1 200 OK\r\n")
        assert output.endswith(b"\r\n\r\n5")
        assert connection.transport.closed

    connected(use)


def test_too_many_pipelined_requests_are_refused() -> None:
    async def use(connection: Connection) -> None:
        connection.send(b"GET / HTTP/1.1\r\n\r\n" * 100)
        assert (await connection.output()).count(b"HTTP/1.1 200 OK") == MOST_PIPELINED + 1
        assert connection.transport.closed

    connected(use)


def test_new_connection_takes_the_place_of_the_oldest_without_the_key() -> None:
    async def go() -> None:
        unverified: dict[ProxyProtocol, None] = {}
        first = Connection(accept, unverified)
        first.send(b"GET / HTTP/1.1\r\n\r\n")
        await first.output()
        others = [Connection(refuse, unverified) for _ in range(4)]
        others[2].protocol.connection_lost(None)
        others.append(Connection(refuse, unverified))
        assert [each.transport.closed for each in (first, *others)] == [False, True, True, True, False, False]
        assert [*unverified] == [each.protocol for each in others[3:]]

    asyncio.run(go())
