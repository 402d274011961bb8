"""Fault rules before an aiohttp server: the middleware, and a streamed body that it can disturb."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiohttp import web


class Streamed(web.StreamResponse):
    """A body of known length in chunks, sent by whoever holds it last; `sent` counts what left."""

    def __init__(
        self, chunks: Iterable[bytes], *, length: int, headers: Mapping[str, str], status: int = 200
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.content_type = "application/octet-stream"
        self.content_length = length
        self.chunks = chunks
        self.sent = 0

    async def deliver(self, request: web.Request) -> None:
        await self.prepare(request)
        if request.method != "HEAD":
            for chunk in self.chunks:
                await self.write(chunk)
                self.sent += len(chunk)
        await self.write_eof()
