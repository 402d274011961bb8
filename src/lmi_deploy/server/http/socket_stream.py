"""One socket's bytes, in and out.

In place of asyncio's streams: those cost a coroutine for each line and field, and a fresh 256 KiB for each receive,
which is more than all the rest of a small request.
"""

from __future__ import annotations

import asyncio
import math

READ_AHEAD = 256 * 1024

# Every socket receives into this buffer; the data is copied out before the loop handles the next event.
_LANDING = memoryview(bytearray(READ_AHEAD))


class SocketStream(asyncio.BufferedProtocol):
    """`have` holds the bytes that were received and not yet used: the parser reads them there and removes what it
    parsed.
    """

    def __init__(self) -> None:
        self.have = bytearray()
        self.at_end = False
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._need = 1
        self._resting = False
        self._drained: asyncio.Future[None] | None = None
        self._until = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._lost = False
        self._closing: asyncio.Future[None] | None = None

    @property
    def transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise ConnectionError("not connected")
        return self._transport

    @property
    def closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def used(self, size: int) -> None:
        """The first `size` bytes are done with."""
        del self.have[:size]
        if self._resting and len(self.have) < READ_AHEAD:
            self._go_on()

    def take(self, size: int) -> bytes:
        """The first `size` bytes, which must have arrived."""
        used = bytes(memoryview(self.have)[:size])
        self.used(size)
        return used

    async def more(self, need: int = 1, until: float = math.inf) -> None:
        """Wait until `need` bytes have arrived; EOFError if they cannot, TimeoutError at `until` (the loop's clock)."""
        if len(self.have) >= need:
            return
        if self.at_end:
            raise self._end(need)
        self._need = need
        if self._resting:
            self._go_on()
        self._waiter = asyncio.get_running_loop().create_future()
        self._watch(until)
        try:
            await self._waiter
        finally:
            self._waiter, self._need, self._until = None, 1, math.inf

    async def exactly(self, size: int, until: float = math.inf) -> bytes:
        """The next `size` bytes; errors as those of `more`."""
        if len(self.have) < size:
            await self.more(size, until)
        return self.take(size)

    def write(self, raw: bytes) -> None:
        """Sent immediately as far as the socket accepts it, the rest as soon as possible; does nothing when it is
        closed.
        """
        if not self.closing:
            self.transport.write(raw)

    @property
    def full(self) -> bool:
        """Whether the other side is so far behind that it should be waited for, with `drain`."""
        return self._drained is not None

    @property
    def unsent(self) -> int:
        """Bytes that were written and are not out yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    async def drain(self) -> None:
        """Until the other side has read enough; ConnectionError when it left."""
        if self._drained is not None:
            await self._drained
        if self.closing:
            raise ConnectionResetError("the client closed the connection")

    def close(self) -> None:
        """Pending data is still sent."""
        if self._transport is not None:
            self._transport.close()

    async def closed(self) -> None:
        """Until all that was written is out, or cannot go out any more."""
        if self._transport is not None and not self._lost:
            self._closing = asyncio.get_running_loop().create_future()
            await self._closing

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # The methods that asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return _LANDING

    def buffer_updated(self, nbytes: int) -> None:
        have = self.have
        have += _LANDING[:nbytes]
        if len(have) >= self._need and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if len(have) >= max(READ_AHEAD, self._need):  # receive no more until the parser uses these bytes
            self._resting = True
            if not self.closing:
                self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._ended()
        return True  # the writing side stays open: a response may still be in progress

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._ended()
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)
        self.resume_writing()
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def _ended(self) -> None:
        self.at_end = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._end(self._need))

    def _end(self, need: int) -> EOFError:
        return EOFError(f"{len(self.have)} of {need} bytes")

    def _go_on(self) -> None:
        self._resting = False
        if not self.closing:
            self.transport.resume_reading()

    def _watch(self, until: float) -> None:
        # One timer for many waits: a new one is set only when the old one has rung, which with short waits is seldom.
        self._until = until
        if self._timer is None and until < math.inf:
            self._timer = asyncio.get_running_loop().call_at(until, self._poll)
        elif self._timer is not None and until < self._timer.when():
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(until, self._poll)

    def _poll(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if asyncio.get_running_loop().time() >= self._until:
            self._waiter.set_exception(TimeoutError())
        else:
            self._watch(self._until)
