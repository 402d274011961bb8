"""The HTTP protocol of uvicorn, with limits, and with the head of a response and its first piece in one write.

uvicorn limits neither the size nor the time of a request, nor the connections of clients that have no key. It makes two
writes, and a write is a tenth of the time of a request.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from lmi_deploy.proxy.asgi_request import KEY_ACCEPTED
from lmi_deploy.proxy.openai_error import OpenAIError, bad_request

LARGEST_HEAD: Final = 65_536
"""Bytes, as h11 of uvicorn limits them."""
MOST_HEADERS: Final = 256
MOST_PIPELINED: Final = 16
HEAD_SECONDS: Final = 30.0
BODY_SECONDS: Final = 120.0
SLOWEST: Final = 8192
"""Bytes a second of a body: time for them is added to BODY_SECONDS. The model server has the same limits of time."""
_HEAD = b"HTTP/1.1 "


class JoinedWrites:
    """A transport that keeps the head of a response until what follows it, or until the loop's next turn."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class ProxyProtocol(HttpToolsProtocol):
    """`unverified` are the connections whose client has not sent the key, the oldest first. If there are
    `most_unverified`, a new one takes the place of the oldest: clients without a key lock out no other.
    """

    def __init__(self, *, unverified: dict[ProxyProtocol, None], most_unverified: int, **parts: Any) -> None:
        super().__init__(**parts)
        self._unverified = unverified
        self._most_unverified = most_unverified
        self._framing = 0
        """Bytes since the last of a body: of a head, of trailers, of a chunk's size."""
        self._deadline = math.inf
        """When the request that started must be complete, by the clock of the loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        if len(self._unverified) >= self._most_unverified:
            oldest = next(iter(self._unverified))
            del self._unverified[oldest]
            oldest.transport.abort()
        self._unverified[self] = None
        self._deadline = self.loop.time() + HEAD_SECONDS

    def connection_lost(self, exc: Exception | None) -> None:
        self._unverified.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._framing += len(data)
        if self._deadline == math.inf:
            self._deadline = self.loop.time() + HEAD_SECONDS
        super().data_received(data)
        if self._framing > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("")

    def end_if_late(self, now: float) -> None:
        if now > self._deadline and not self._is_answering and not self.transport.is_closing():
            self._refuse(OpenAIError(408, "the request was not complete in time", code="request_timeout"))

    def send_400_response(self, msg: str) -> None:
        limits = f"{LARGEST_HEAD:,} bytes or {MOST_HEADERS} headers"
        self._refuse(bad_request(f"the request is not HTTP, or its head has more than {limits}"))

    @property
    def _is_answering(self) -> bool:
        """Whether there is a complete request without its whole response."""
        cycle = self.cycle
        return bool(self.pipeline) or (
            cycle is not None and not cycle.response_complete and not cycle.more_body
        )

    def _refuse(self, error: OpenAIError) -> None:
        """The connection ends with this response, or with those to complete requests that came before."""
        if self._is_answering:
            self.flow.pause_reading()
            self.cycle.keep_alive = False
            return
        head = (
            b"content-type: application/json",
            b"content-length: %d" % len(error.body),
            b"connection: close",
        )
        self.transport.write(STATUS_LINE[error.status] + b"\r\n".join((*head, b"", error.body)))
        self.transport.close()

    # The parser calls these; an exception ends it, with `send_400_response`.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {KEY_ACCEPTED: self._key_accepted}  # type: ignore[dict-item]

    def _key_accepted(self) -> None:
        self._unverified.pop(self, None)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_HEADERS:
            raise ValueError("too many headers or trailers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests before the first response")
        super().on_headers_complete()
        self._deadline = self.loop.time() + BODY_SECONDS

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        if not self.cycle.response_complete:  # the rest of a refused body gets no more time
            self._deadline += len(body) / SLOWEST
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._framing, self._deadline = 0, math.inf
        super().on_message_complete()
