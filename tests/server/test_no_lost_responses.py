"""2,000 requests of every kind, 64 at a time, some of whose clients disconnect: each response reaches its
client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.server.handlers import ASYNC, MANY_WAYS
from tests.support.running_server import serving, write_model

pytestmark = pytest.mark.worker

REQUESTS = 2000
IN_FLIGHT = 64
SYNC = MANY_WAYS.replace('"t%d" % number', 'inputs_text + "-%d" % number').replace(
    "def pieces(count, delay, exit_at):", "def pieces(count, delay, exit_at, inputs_text):"
)
SYNC = SYNC.replace('asked.get("exit_at"))', 'asked.get("exit_at"), asked["text"])')


@pytest.mark.parametrize("workers", [1, 2])
def test_sync_engine_loses_no_response(tmp_path: Path, workers: int) -> None:
    properties = f"engine=Python\nminWorkers={workers}\nmaxWorkers={workers}\n"
    with serving(write_model(tmp_path / "m", SYNC, properties)) as served:
        faults = asyncio.run(all_clients(served.port, '{"outputs": "%s-%d"}\n', "%s"))
        status = served.send_request({"do": "status"})
    assert faults == []
    assert status["requests"]["in_flight"] == 0


def test_async_engine_loses_no_response(tmp_path: Path) -> None:
    properties = "engine=Python\noption.async_mode=true\nminWorkers=1\nmaxWorkers=1\n"
    with serving(write_model(tmp_path / "m", ASYNC, properties)) as served:
        assert asyncio.run(all_clients(served.port, "%s-%d\n", "%s\n")) == []


def test_worker_crash_among_quick_requests_loses_no_response(tmp_path: Path) -> None:
    """Such quick requests are sent ahead to the worker: those it had not started are not lost with it."""

    async def go(port: int) -> list[int]:
        requests = [b'{"do": "echo", "text": "x"}'] * 200
        requests[150] = b'{"do": "exit"}'
        lines = [await asyncio.open_connection("127.0.0.1", port) for _ in requests]
        for (_, writer), body in zip(lines, requests, strict=True):
            writer.write(b"POST /invocations HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        async with asyncio.timeout(30):
            heads = [await reader.readuntil(b"\r\n\r\n") for reader, _ in lines]
        for _, writer in lines:
            writer.close()
        return [int(head.split()[1]) for head in heads]

    with serving(write_model(tmp_path / "m", SYNC)) as served:
        statuses = asyncio.run(go(served.port))
        failed = statuses.count(503)
        assert served.send_request({"do": "status"})["requests"] == {
            "served": 200 - failed, "failed": failed, "in_flight": 0,
        }  # fmt: skip
    assert set(statuses) == {200, 503}
    assert statuses[150] == 503


async def all_clients(port: int, chunk: str, text: str) -> list[str]:
    """All clients; returns the errors they found."""
    faults: list[str] = []
    numbers = iter(range(REQUESTS))

    async def client() -> None:
        for number in numbers:
            expected = (
                text % f"n{number}" if number % 3 else "".join(chunk % (f"n{number}", i) for i in range(3))
            )
            got = await one(port, number)
            if got is not None and got != expected.encode():
                faults.append(f"{number}: {got!r}")

    await asyncio.gather(*(client() for _ in range(IN_FLIGHT)))
    return faults


async def one(port: int, number: int) -> bytes | None:
    """The body of the response; None for a client that disconnected before it came."""
    requests = {"do": "echo" if number % 3 else "stream", "text": f"n{number}", "count": 3}
    body = json.dumps(requests).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /invocations HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    try:
        if number % 17 == 0:
            return None
        async with asyncio.timeout(30):
            return await answer(reader)
    except (TimeoutError, OSError, EOFError) as exc:
        return repr(exc).encode()
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"chunked" not in head:
        return await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    return body
