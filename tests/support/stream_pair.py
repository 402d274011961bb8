"""A stream of the model server over a real pair of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lmi_deploy.server.http.stream import Stream


@asynccontextmanager
async def stream_of(raw: bytes) -> AsyncIterator[tuple[Stream, socket.socket]]:
    """A stream whose other side sent `raw` and nothing more, and that other side."""
    here, there = socket.socketpair()
    there.sendall(raw)
    there.shutdown(socket.SHUT_WR)
    stream = Stream()
    await asyncio.get_running_loop().create_connection(lambda: stream, sock=here)
    try:
        yield stream, there
    finally:
        stream.close()
        await stream.closed()
        there.close()
