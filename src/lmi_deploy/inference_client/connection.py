"""One HTTP/1.1 connection and its exchanges, one at a time: httptools parses, each piece has the time it arrived."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import httptools

from lmi_deploy.inference_client.transfer_errors import ConnectionCut, TimedOut, TransferError

MAX_BUFFERED = 1 << 20
"""Bytes that may wait to be read before the connection is paused."""
_BUFFER = 1 << 16
_LENGTH_HEADERS = frozenset({b"content-length", b"transfer-encoding"})


class BodyPart(NamedTuple):
    """A piece of a body; `at` is `time.perf_counter` when it arrived."""

    at: float
    data: bytes


class InferenceExchange:
    """One request and its response. Times are of `time.perf_counter`; 0.0 until it happened."""

    def __init__(
        self,
        connection: HttpConnection,
        timeout: float,
        on_end: Callable[[InferenceExchange], None] | None = None,
    ) -> None:
        self.status = 0
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self.sent_at = time.perf_counter()
        self.first_at = 0.0
        self.last_at = 0.0
        self.timeout = timeout
        self._connection = connection
        self._parts: list[BodyPart] = []
        self._buffered = 0
        self._has_head = False
        self._complete = False
        self._is_collected = on_end is not None
        self._on_end = on_end
        self.failure: TransferError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names in lower case."""
        return [(key.decode("latin-1").lower(), value.decode("latin-1")) for key, value in self.raw_headers]

    def header(self, name: str) -> str:
        """Of the response, by its name in lower case; empty if it has none."""
        return next((value for key, value in self.headers if key == name), "")

    async def wait_for_head(self) -> None:
        """Until status and headers are there; TransferError if they never come."""
        while not self._has_head:
            await self._wait()

    async def read_parts(self) -> list[BodyPart]:
        """What has arrived since the last call, at least one piece; empty at the end. TransferError if it broke."""
        while not self._parts and not self._complete:
            await self._wait()
        parts, self._parts = self._parts, []
        if self._buffered > MAX_BUFFERED:
            self._connection.resume_reading()
        self._buffered = 0
        return parts

    async def collect(self) -> None:
        """Wait for the end of the response, without waking up for each of its pieces: they are in `parts`.
        TransferError if it broke.
        """
        self._is_collected = True
        self._connection.resume_reading()
        while not self._complete:
            await self._wait()

    @property
    def parts(self) -> Sequence[BodyPart]:
        """What has not been read yet: with `collect` all that arrived, after a failure too."""
        return self._parts

    async def read(self) -> bytes:
        """The rest of the body."""
        pieces: list[bytes] = []
        while parts := await self.read_parts():
            pieces += (part.data for part in parts)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def abort(self) -> None:
        """Close the connection unless the response is complete: the server stops working on it."""
        if not self._complete:
            self._connection.close()

    async def _wait(self) -> None:
        if self.failure is not None:
            raise self.failure
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # What the connection calls.

    def head_arrived(self, status: int) -> None:
        self.status, self._has_head = status, True
        self._wake()

    def body_arrived(self, data: bytes) -> None:
        self._parts.append(BodyPart(self.last_at, data))
        if self._is_collected:
            return
        self._buffered += len(data)
        if self._buffered > MAX_BUFFERED:
            self._connection.pause_reading()
        self._wake()

    def completed(self) -> None:
        self._complete = True
        self._end()

    def failed(self, why: TransferError) -> None:
        if not self._complete and self.failure is None:
            self.failure = why
            self._end()

    def _end(self) -> None:
        self._wake()
        if self._on_end is not None:
            self._on_end(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class HttpConnection(asyncio.BufferedProtocol):
    """`on_idle` is called when the next exchange may begin, `on_closed` when there is none any more."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_idle: Callable[[HttpConnection], None],
        on_closed: Callable[[HttpConnection], None],
    ) -> None:
        self.loop = loop
        self.idle_since = 0.0
        self.exchanges = 0
        self.is_closed = False
        self.is_paused = False
        self._on_idle = on_idle
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._exchange: InferenceExchange | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._buffer = bytearray(_BUFFER)
        self._has_length = False
        self._keeps_alive = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def start(
        self,
        head: bytes,
        body: bytes,
        *,
        timeout: float,
        on_end: Callable[[InferenceExchange], None] | None = None,
    ) -> InferenceExchange:
        """Send a request; the connection is idle."""
        assert self._transport is not None
        assert self._exchange is None
        self.exchanges += 1
        self._exchange = exchange = InferenceExchange(self, timeout, on_end)
        self._has_length = False
        if exchange.sent_at + timeout < self._timer_at:
            self._set_timer(timeout)
        self._transport.write(head + body)
        return exchange

    def _set_timer(self, seconds: float) -> None:
        """One for all exchanges: it looks when the last data came, and is set again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = time.perf_counter() + seconds
        self._timer = self.loop.call_later(seconds, self._check_time)

    def _check_time(self) -> None:
        self._timer, self._timer_at = None, math.inf
        exchange = self._exchange
        if exchange is None:
            return
        quiet = time.perf_counter() - max(exchange.last_at, exchange.sent_at)
        if self.is_paused:
            self._set_timer(exchange.timeout)
        elif quiet < exchange.timeout:
            self._set_timer(exchange.timeout - quiet)
        else:
            exchange.failed(TimedOut(f"no data for {exchange.timeout:g} s"))
            self.close()

    def close(self) -> None:
        """At once; an exchange that is not complete fails."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None and not self.is_paused:
            self.is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and self.is_paused and not self.is_closed:
            self.is_paused = False
            self._transport.resume_reading()

    # asyncio's protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        exchange = self._exchange
        if exchange is None:
            self.close()  # data without a request
            return
        exchange.last_at = time.perf_counter()
        if not exchange.first_at:
            exchange.first_at = exchange.last_at
        try:
            self._parser.feed_data(memoryview(self._buffer)[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            exchange.failed(TransferError(f"the response is not HTTP/1.1: {exc}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            if exchange.status and not self._has_length and exc is None:
                exchange.completed()  # its end is that of the connection
            else:
                why = f"the connection was closed before the end of the response{f': {exc}' if exc else ''}"
                exchange.failed(ConnectionCut(why, unanswered=not exchange.first_at))
        self._on_closed(self)

    # httptools' callbacks.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None:
            self._exchange.raw_headers.append((name, value))
        if name.lower() in _LENGTH_HEADERS:
            self._has_length = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._exchange is None:
            return
        if status < 200:  # 100 Continue and the like announce the response
            self._exchange.raw_headers.clear()
            return
        self._has_length = self._has_length or status in (204, 304)
        self._keeps_alive = self._parser.should_keep_alive()
        self._exchange.head_arrived(status)

    def on_body(self, body: bytes) -> None:
        if self._exchange is not None:
            self._exchange.body_arrived(body)

    def on_message_complete(self) -> None:
        if self._exchange is None or not self._exchange.status:
            return
        exchange, self._exchange = self._exchange, None
        exchange.completed()
        if self._keeps_alive and not self.is_closed:
            self.resume_reading()
            self.idle_since = exchange.last_at
            self._on_idle(self)
        else:
            self.close()
