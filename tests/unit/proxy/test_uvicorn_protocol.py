"""The head of a response leaves with what follows it."""

from __future__ import annotations

import asyncio
from typing import Any

from lmi_deploy.proxy.uvicorn_protocol import JoinedWrites


class RecordingTransport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def run(*calls: Any) -> list[bytes]:
    """Each call gets the transport; None is a turn of the loop."""

    async def use() -> list[bytes]:
        transport = RecordingTransport()
        joined = JoinedWrites(transport, asyncio.get_running_loop())  # type: ignore[arg-type]
        for call in calls:
            if call is None:
                await asyncio.sleep(0)
            else:
                call(joined)
        return transport.written

    return asyncio.run(use())


def write(data: bytes) -> Any:
    return lambda joined: joined.write(data)


def test_head_and_body_are_one_write() -> None:
    assert run(write(b"HTTP/1.1 200 OK\r\n\r\n"), write(b"body"), write(b"more")) == [
        b"HTTP/1.1 200 OK\r\n\r\nbody",
        b"more",
    ]


def test_head_alone_leaves_with_the_next_turn_of_the_loop() -> None:
    assert run(write(b"HTTP/1.1 100 Continue\r\n\r\n"), None, write(b"body")) == [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"body",
    ]


def test_head_leaves_before_the_connection_is_closed() -> None:
    assert run(write(b"HTTP/1.1 204 No Content\r\n\r\n"), lambda joined: joined.close(), None) == [
        b"HTTP/1.1 204 No Content\r\n\r\n"
    ]
