"""Bytes of one socket: awaited, consumed, held back, and written to a slow reader."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lmi_deploy.server.http.socket_stream import READ_AHEAD, SocketStream
from tests.support.stream_pair import stream_of


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[SocketStream, SocketStream]]:
    loop = asyncio.get_running_loop()
    ends = [SocketStream(), SocketStream()]
    for end, sock in zip(ends, socket.socketpair(), strict=True):
        await loop.create_connection(lambda end=end: end, sock=sock)
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            end.abort()
            await end.closed()


def test_exactly_waits_for_enough_bytes() -> None:
    async def go() -> None:
        async with pair() as (local, existing):
            reading = asyncio.create_task(local.exactly(4))
            existing.write(b"ab")
            await asyncio.sleep(0.02)
            assert not reading.done()
            existing.write(b"cdef")
            assert await reading == b"abcd"
            assert local.have == b"ef"

    asyncio.run(go())


def test_missing_bytes_are_end_of_file_or_timeout() -> None:
    async def go() -> None:
        async with stream_of(b"abc") as (stream, _):
            with pytest.raises(EOFError, match="3 of 4"):
                await stream.more(4)
        async with pair() as (local, existing):
            loop = asyncio.get_running_loop()
            for wait in (0.05, 0.01, 0.03):
                with pytest.raises(TimeoutError):
                    await local.more(until=loop.time() + wait)
            existing.write(b"x")
            assert await local.exactly(1) == b"x"

    asyncio.run(go())


def test_next_wait_has_its_own_time_limit() -> None:
    async def go() -> None:
        async with pair() as (local, existing):
            loop = asyncio.get_running_loop()
            existing.write(b"a")
            await local.more(until=loop.time() + 0.05)
            local.used(1)
            loop.call_later(0.15, existing.write, b"b")
            await local.more(until=loop.time() + 10)
            assert local.have == b"b"

    asyncio.run(go())


def test_slow_reader_applies_backpressure_and_loses_nothing() -> None:
    async def go() -> None:
        size = 20 * READ_AHEAD
        async with pair() as (local, existing):
            existing.write(b"x" * size)
            await local.more()
            await asyncio.sleep(0.05)
            assert len(local.have) < size
            assert existing.full
            drained = asyncio.create_task(existing.drain())
            assert len(await local.exactly(size)) == size
            await drained

    asyncio.run(go())


def test_aborted_reader_fails_the_sender() -> None:
    async def go() -> None:
        async with pair() as (local, existing):
            existing.write(b"x" * 20 * READ_AHEAD)
            local.abort()
            with pytest.raises(ConnectionError):
                await existing.drain()

    asyncio.run(go())
