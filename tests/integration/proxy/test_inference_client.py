"""The HTTP client against servers that answer with exact bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.inference_client.client import HttpAddress, InferenceClient
from lmi_deploy.inference_client.connection import MAX_BUFFERED, InferenceExchange
from lmi_deploy.inference_client.transfer_errors import ConnectFailed, ConnectionCut, TimedOut, TransferError
from tests.support.certificate import certificate

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(length)


def answers(*responses: bytes, close: bool = False) -> Handle:
    """Each connection gets these in turn."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for response in responses:
            try:
                await read_request(reader)
            except asyncio.IncompleteReadError:
                break
            writer.write(response)
        if not close:
            await reader.read()

    return handle


def against(handle: Handle, use: Callable[[InferenceClient, HttpAddress], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        handling = set()

        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            current = asyncio.current_task()
            handling.add(current)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await handle(reader, writer)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

        server = await asyncio.start_server(served, "127.0.0.1", 0)
        client = InferenceClient()
        address = HttpAddress.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x")
        try:
            async with asyncio.timeout(30):
                return await use(client, address)
        finally:
            client.close()
            server.close()
            await asyncio.gather(*handling)

    return asyncio.run(run())


async def ask(
    client: InferenceClient, address: HttpAddress, body: bytes = b"{}", timeout: float = 5.0
) -> Any:
    return await client.post(address, (("Content-Type", "application/json"),), body, timeout=timeout)


def test_requests_share_a_connection_and_the_times_are_in_order() -> None:
    heads = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            heads.append(await read_request(reader))
            writer.write(OK)
        await reader.read()

    async def use(client: InferenceClient, address: HttpAddress) -> None:
        for _ in range(2):
            exchange = await ask(client, address, b'{"a": 1}')
            assert (exchange.status, await exchange.read()) == (200, b"ok")
            assert 0 < exchange.sent_at <= exchange.first_at <= exchange.last_at
        assert client.open_connections == 1

    against(handle, use)
    assert [body for _, body in heads] == [b'{"a": 1}'] * 2
    assert heads[0][0].startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:")


def test_pieces_come_with_their_times_and_chunks_are_joined() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"one", b"two"):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0.05)
        writer.write(b"0\r\n\r\n")
        await reader.read()

    async def use(client: InferenceClient, address: HttpAddress) -> list[Any]:
        exchange, found = await ask(client, address), []
        while parts := await exchange.read_parts():
            found += parts
        return found

    first, second = against(handle, use)
    assert (first.data, second.data) == (b"one", b"two")
    assert second.at - first.at > 0.03


def test_a_connection_that_the_server_closed_while_it_was_idle_is_replaced() -> None:
    """The close and the next request cross: the client sees the end only after it has sent."""
    count = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        await read_request(reader)
        writer.write(OK)
        if count == 1:
            await read_request(reader)
        else:
            await reader.read()

    async def use(client: InferenceClient, address: HttpAddress) -> None:
        for _ in range(2):
            assert await (await ask(client, address)).read() == b"ok"

    against(handle, use)
    assert count == 2


def test_a_fresh_connection_that_is_closed_is_no_reason_to_send_again() -> None:
    count = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        await read_request(reader)

    with pytest.raises(ConnectionCut):
        against(handle, ask)
    assert count == 1


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "closed before the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "closed before the end"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP/1.1"),
    ],
)
def test_a_response_that_is_cut_or_no_http_is_an_error(response: bytes, words: str) -> None:
    async def use(client: InferenceClient, address: HttpAddress) -> None:
        await (await ask(client, address)).read()

    with pytest.raises(TransferError, match=words):
        against(answers(response, close=True), use)


def test_without_a_length_the_end_of_the_connection_is_the_end() -> None:
    async def use(client: InferenceClient, address: HttpAddress) -> Any:
        return await (await ask(client, address)).read()

    assert against(answers(b"HTTP/1.1 200 OK\r\n\r\nall", close=True), use) == b"all"


def test_a_server_that_says_nothing_is_given_up() -> None:
    async def use(client: InferenceClient, address: HttpAddress) -> None:
        await ask(client, address, timeout=0.1)

    with pytest.raises(TimedOut, match=r"no data for 0\.1 s"):
        against(answers(b""), use)


def test_no_server() -> None:
    with pytest.raises(ConnectFailed, match="no connection to 127"):
        asyncio.run(ask(InferenceClient(), HttpAddress.parse("http://127.0.0.1:1/")))


def test_an_abandoned_response_closes_its_connection() -> None:
    closed = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        closed.append(await reader.read())

    async def use(client: InferenceClient, address: HttpAddress) -> None:
        exchange = await ask(client, address)
        exchange.abort()
        while not closed:
            await asyncio.sleep(0.01)
        assert client.open_connections == 0

    against(handle, use)


def test_a_reader_that_is_slow_pauses_the_server() -> None:
    size = 20 * MAX_BUFFERED
    body = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size

    async def use(client: InferenceClient, address: HttpAddress) -> int:
        exchange, total, largest = await ask(client, address), 0, 0
        while parts := await exchange.read_parts():
            await asyncio.sleep(0.01)
            held = sum(len(part.data) for part in parts)
            total, largest = total + held, max(largest, held)
        assert largest < 4 * MAX_BUFFERED
        return total

    assert against(answers(body), use) == size


def test_certificate_is_verified(tmp_path: Path) -> None:
    path, key = certificate(tmp_path)
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(path, key)

    async def run() -> bytes:
        done = asyncio.Event()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(OK)
            await done.wait()
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=server_side)
        address = HttpAddress.parse(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        trusting = InferenceClient(tls=ssl.create_default_context(cafile=path))
        try:
            with pytest.raises(ConnectFailed, match="certificate verify failed"):
                await ask(InferenceClient(), address)
            exchange = await ask(trusting, address)
            return await exchange.read()
        finally:
            done.set()
            trusting.close()
            server.close()
            await asyncio.sleep(0.1)

    assert asyncio.run(run()) == b"ok"


def started(
    client: InferenceClient, address: HttpAddress, timeout: float
) -> asyncio.Future[InferenceExchange]:
    ended = asyncio.get_running_loop().create_future()
    assert client.start(address, (), b"{}", timeout=timeout, on_end=ended.set_result)
    return ended


def test_started_request_needs_an_idle_connection_and_reports_its_end() -> None:
    async def use(client: InferenceClient, address: HttpAddress) -> tuple[bool, int, list[bytes]]:
        had_none = client.start(address, (), b"{}", timeout=5, on_end=lambda exchange: None)
        await (await ask(client, address)).read()
        exchange = await started(client, address, 5)
        return had_none, exchange.status, [part.data for part in exchange.parts]

    assert against(answers(OK, OK), use) == (False, 200, [b"ok"])


def test_started_request_that_breaks_has_its_failure_and_what_came() -> None:
    async def use(client: InferenceClient, address: HttpAddress) -> InferenceExchange:
        await (await ask(client, address)).read()
        return await started(client, address, 5)

    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"
    exchange = against(answers(OK, cut, close=True), use)
    assert isinstance(exchange.failure, ConnectionCut)
    assert not exchange.failure.unanswered
    assert [part.data for part in exchange.parts] == [b"part"]


def test_short_limit_holds_after_a_long_one_on_the_same_connection() -> None:
    async def use(client: InferenceClient, address: HttpAddress) -> InferenceExchange:
        await (await ask(client, address, timeout=300.0)).read()
        return await started(client, address, 0.2)

    assert isinstance(against(answers(OK, b""), use).failure, TimedOut)


def test_long_limit_holds_after_a_short_one_on_the_same_connection() -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await read_request(reader)
        await asyncio.sleep(0.6)
        writer.write(OK)
        await reader.read()

    async def use(client: InferenceClient, address: HttpAddress) -> int:
        await (await ask(client, address, timeout=0.2)).read()
        return (await started(client, address, 30)).status

    assert against(late, use) == 200
