"""One request over ASGI: its body, its reply, and the end of its handling when the client leaves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from lmi_deploy.proxy.openai_error import OpenAIError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream; charset=utf-8"
KEY_ACCEPTED: Final = "lmi.key_accepted"
"""The ASGI extension by which the application says that the client has sent the key."""
CLIENT_LEFT: Final = 499
"""The status that is counted for a client that left; none is sent."""


class ProxyReply:
    """`status` is the one to count: of a stream that broke it is the error's. No other reply has its `key`."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._watch: asyncio.Task[None] | None = None
        self.key = os.urandom(16).hex()
        self.status = 0
        self.has_started = False
        self.is_complete = False
        self.client_left = False

    async def read_body(self, limit: int) -> bytes:
        """OpenAIError (413) beyond `limit` bytes."""
        pieces, size = [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.client_left = True
                raise asyncio.CancelledError
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > limit:
                raise OpenAIError(413, f"the body has more than {limit:,} bytes", code="request_too_large")
            if not message.get("more_body"):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def watch_client(self) -> None:
        """From now on the current task is cancelled when the client leaves."""
        current = asyncio.current_task()
        assert current is not None
        self._watch = asyncio.create_task(self._cancel_when_left(current))

    async def _cancel_when_left(self, handling: asyncio.Task[Any]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self.is_complete:
            self.client_left = True
            handling.cancel()

    async def whole(
        self,
        status: int,
        content: bytes,
        *,
        kind: bytes = JSON,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        length = (b"content-length", str(len(content)).encode())
        await self._start(status, kind, (length, *headers))
        await self.end(content)

    async def error(self, error: OpenAIError) -> None:
        retry = () if error.retry_after is None else ((b"retry-after", str(error.retry_after).encode()),)
        await self.whole(error.status, error.body, headers=retry)

    async def events(self, events: bytes, *, more: bool = True) -> None:
        """The head before the first ones; unless `more` come, the end with them, in one write."""
        if not self.has_started:
            await self._start(200, EVENTS, ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")))
        self.is_complete = not more
        await self._send({"type": "http.response.body", "body": events, "more_body": more})

    async def end(self, content: bytes = b"") -> None:
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": content, "more_body": False})

    async def _start(self, status: int, kind: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self.has_started, self.status = True, status
        identity = (b"x-request-id", f"req_{self.key}".encode())
        head = [(b"content-type", kind), identity, *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
