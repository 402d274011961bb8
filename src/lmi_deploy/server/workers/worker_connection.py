"""The one connection to a worker's process: sends requests, reads responses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

from lmi_deploy.server.http.socket_stream import SocketStream
from lmi_deploy.server.workers.djl_protocol import (
    Entry,
    Pair,
    WireError,
    WireReader,
    WorkerResponse,
    pack_request,
)

LOCALHOST = "127.0.0.1"


class WorkerLost(Exception):
    """The worker's process or connection no longer exists."""


class WorkerConnection:
    """One request at a time; `WorkerLost` when the process no longer responds."""

    def __init__(self, stream: SocketStream, *, largest: int) -> None:
        self._stream = stream
        self._reader = WireReader(stream, largest=largest)

    @property
    def at_end(self) -> bool:
        """Whether the worker closed it, and everything it sent has been read."""
        return self._stream.at_end and not self._stream.have

    async def send(
        self, properties: Sequence[Pair], content: Sequence[Entry], until: float = math.inf
    ) -> None:
        """One request; TimeoutError if it is not read by `until`, by the loop's clock."""
        request = pack_request(properties, content)
        if self._stream.closing:
            raise WorkerLost("Backend Python process is stopped.")
        self._stream.write(request)
        if self._stream.full:
            try:
                async with asyncio.timeout_at(until if until < math.inf else None):
                    await self._stream.drain()
            except ConnectionError as exc:
                raise WorkerLost("Python worker disconnected.") from exc

    async def read_response(self, until: float = math.inf) -> WorkerResponse:
        """TimeoutError without a response by `until`, by the loop's clock."""
        try:
            return await self._reader.read_response(until)
        except (EOFError, WireError) as exc:
            raise WorkerLost("Python worker disconnected.") from exc

    async def frame(self) -> tuple[bool, bytes]:
        """The next frame of a stream, and whether more follow."""
        try:
            return await self._reader.frame()
        except (EOFError, WireError) as exc:
            raise WorkerLost("Python worker disconnected.") from exc

    def close(self) -> None:
        self._stream.close()


async def connected(place: Path | int, *, largest: int) -> WorkerConnection:
    """A connection to a Unix socket or to a port of this machine; OSError when no process listens there."""
    loop = asyncio.get_running_loop()
    stream = SocketStream()
    if isinstance(place, Path):
        await loop.create_unix_connection(lambda: stream, str(place))
    else:
        await loop.create_connection(lambda: stream, LOCALHOST, place)
    return WorkerConnection(stream, largest=largest)
