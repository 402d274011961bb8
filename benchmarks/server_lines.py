"""Clients that cost next to nothing: answers are counted by their bytes, which are as many each time."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

TIMEOUT = 60.0
QUIET = 0.3


class Turn:
    """Requests that are still to be sent, by whichever line is free."""

    def __init__(self, count: int) -> None:
        self._left = count

    def next(self) -> bool:
        self._left -= 1
        return self._left >= 0


class Line(asyncio.Protocol):
    """One connection before which requests queue: an answer is the sign for one more of them."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._started: deque[float] = deque()
        self._have = bytearray()
        self._size = 0
        self._waiting = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def learn(self) -> bytes:
        """One answer, whole once nothing more comes: every later one has its size."""
        self._transport.write(self._request)
        while not self._have:
            await asyncio.sleep(0.01)
        await asyncio.sleep(QUIET)
        response = bytes(self._have)
        self._size = len(response)
        self._have.clear()
        return response

    def begin(self, turn: Turn, *, queued: int, at_once: int) -> asyncio.Future[None]:
        """`queued` requests wait all the time, counted from when they began to; `at_once` of them are sent already."""
        self._turn, self._limit = turn, at_once
        self.durations: list[float] = []
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for _ in range(queued):
            self._queue()
        return self._over

    def data_received(self, data: bytes) -> None:
        self._have += data
        while self._started and len(self._have) >= self._size:
            del self._have[: self._size]
            self.durations.append(time.perf_counter() - self._started.popleft())
            self._limit += 1
            self._queue()
        if self._size and not self._started and not self._over.done():
            self._over.set_result(None)

    def _queue(self) -> None:
        if self._turn.next():
            self._started.append(time.perf_counter())
            self._waiting += 1
        if self._waiting and self._limit:
            self._waiting -= 1
            self._limit -= 1
            self._transport.write(self._request)


async def opened(place: int | Path, request: bytes) -> Line:
    """A line to a port here or to a Unix socket; the answer has to hold what the request does at its end."""
    loop = asyncio.get_running_loop()
    if isinstance(place, Path):
        _, line = await loop.create_unix_connection(lambda: Line(request), str(place))
    else:
        _, line = await loop.create_connection(lambda: Line(request), "127.0.0.1", place)
    response = await asyncio.wait_for(line.learn(), TIMEOUT)
    if not response.endswith(request[-64:]):
        raise SystemExit(f"error: no echo came back, but {response!r}")
    return line


async def turn(lines: Sequence[Line], *, queued: int, at_once: int, count: int) -> tuple[list[float], float]:
    """Seconds of each of `count` requests, `queued` before each line; and requests/s."""
    shared = Turn(count)
    started = time.perf_counter()
    await asyncio.wait_for(
        asyncio.gather(*[line.begin(shared, queued=queued, at_once=at_once) for line in lines]), TIMEOUT
    )
    total = time.perf_counter() - started
    return [seconds for line in lines for seconds in line.durations], count / total


def http(body: bytes) -> bytes:
    head = ("POST /invocations HTTP/1.1", "Host: 127.0.0.1", "Content-Type: text/plain")
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def first_chunk(port: int, request: bytes) -> float:
    """Seconds from the request until the first byte after the answer's head, on a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as line:
        started = time.perf_counter()
        line.sendall(request)
        observed = b""
        while not observed.partition(b"\r\n\r\n")[2]:
            observed += line.recv(65536)
        duration = time.perf_counter() - started
        while not observed.endswith(b"0\r\n\r\n"):
            observed += line.recv(65536)
    return duration
