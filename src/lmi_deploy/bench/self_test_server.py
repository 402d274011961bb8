"""A server of known latency, a program of its own: `python -m lmi_deploy.bench.self_test_server LATENCY`.

It prints its port, and ends with its standard input. Each response says in a header how long it really took from the
request's last byte: that time is the server's, and the rest of what the client measured is the client's own error.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, Final, cast

SERVED: Final = "x-served-seconds"
_BODY: Final = b'{"choices": [{"message": {"content": "OK"}, "finish_reason": "stop"}]}'


class FixedLatency(asyncio.BufferedProtocol):
    """Requests one after the other on a connection; each has a Content-Length."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._buffer = bytearray(1 << 16)
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        arrived = time.perf_counter()
        self._rest += self._buffer[:nbytes]
        head, end, body = self._rest.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0] or 0)
        if end and len(body) >= size:
            self._rest = body[size:]
            asyncio.get_running_loop().call_later(self._latency, self._respond, arrived)

    def _respond(self, arrived: float) -> None:
        served = time.perf_counter() - arrived
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{SERVED}: {served:.9f}\r\n"
        self._transport.write(head.encode() + b"content-length: %d\r\n\r\n" % len(_BODY) + _BODY)


async def _serve(latency: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: FixedLatency(latency), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    await asyncio.to_thread(sys.stdin.read)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; None is asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    made: Any = uvloop.new_event_loop
    return cast("Callable[[], asyncio.AbstractEventLoop]", made)


def main() -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(float(sys.argv[1])))


if __name__ == "__main__":
    main()
