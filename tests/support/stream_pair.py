"""A stream of the model server over a real pair of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lmi_deploy.server.http.socket_stream import SocketStream


@asynccontextmanager
async def stream_of(raw: bytes) -> AsyncIterator[tuple[SocketStream, socket.socket]]:
    """A stream whose other side sent `raw` and nothing more, and that other side."""
    local, existing = socket.socketpair()
    existing.sendall(raw)
    existing.shutdown(socket.SHUT_WR)
    stream = SocketStream()
    await asyncio.get_running_loop().create_connection(lambda: stream, sock=local)
    try:
        yield stream, existing
    finally:
        stream.close()
        await stream.closed()
        existing.close()
