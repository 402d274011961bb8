"""Requests from a connection: head, then body, within the limits of size and time."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from lmi_deploy.server.http.request_head_parser import (
    LONGEST_LINE,
    MOST_HEADER_BYTES,
    MalformedRequest,
    ReceivedRequest,
    body_length,
    check_request_start,
    chunk_size,
    is_chunked,
    parse_head,
    parse_header,
)
from lmi_deploy.server.http.socket_stream import SocketStream

_SPACE = 0x20
_SKIPPED = bytes(range(33))  # before a request, as the real server's parser does
_CHUNKS_AT_ONCE = 64  # then other connections have their turn: 256 KiB of chunks of one byte take 0.2 s
_END_OF_HEAD = re.compile(rb"\n\r?\n")


class TooLarge(Exception):
    """The body is over the limit.

    `skip`: bytes to read past before the connection can be reused; None where it cannot be. `closing`: whether the
    response contains `Connection: close`.
    """

    def __init__(self, *, skip: int | None = None, closing: bool = False) -> None:
        super().__init__("request body over max_request_size")
        self.skip = skip
        self.closing = closing


class BadExpectation(Exception):
    """An `Expect` other than 100-continue."""


class Idle(Exception):
    """No request started within the time limit of a kept connection."""


class TooSlow(Exception):
    """A request started and was not complete within its time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds that a client has to send a request. The real server has no such limit: a silent client occupies a
    socket.

    `slowest`, in bytes a second, adds time for large bodies, like MinRate of Apache's mod_reqtimeout.
    """

    idle: float = 300.0
    head: float = 30.0
    body: float = 120.0
    slowest: int = 8192


USUAL_LIMITS = TimeLimits()


class RequestReader:
    """Reads one request after the other from a connection."""

    def __init__(self, stream: SocketStream, *, max_body: int, limits: TimeLimits = USUAL_LIMITS) -> None:
        self._stream = stream
        self._max_body = max_body
        self._limits = limits
        self._now = asyncio.get_running_loop().time

    async def head(self) -> ReceivedRequest | None:
        """The next request without its body, or None when the client has disconnected; `Idle` when no request begins
        in time.
        """
        have = self._stream.have
        late: type[Exception] = Idle
        until = self._now() + self._limits.idle
        while True:
            if have and have[0] <= _SPACE:
                self._stream.used(len(have) - len(have.lstrip(_SKIPPED)))
            if ended := _END_OF_HEAD.search(have):
                return parse_head(self._stream.take(ended.end())[: ended.start()])
            if not have and self._stream.at_end:
                return None
            if have:
                check_request_start(bytes(have))
                if late is Idle:
                    late, until = TooSlow, self._now() + self._limits.head
            try:
                await self._stream.more(len(have) + 1, until)
            except TimeoutError as exc:
                raise late from exc
            except EOFError:
                if have.strip(_SKIPPED):
                    raise  # it left in the middle of a head

    async def body(self, request: ReceivedRequest) -> ReceivedRequest:
        """The request with its body; `TooSlow` if it does not arrive in time."""
        try:
            return await self._with_body(request)
        except TimeoutError as exc:
            raise TooSlow from exc
        except MalformedRequest as exc:
            exc.request = request
            raise

    async def _with_body(self, request: ReceivedRequest) -> ReceivedRequest:
        chunked = is_chunked(request)
        length = body_length(request)
        if (expected := request.header("expect")) is not None and request.version >= "HTTP/1.1":
            if expected.strip().lower() != "100-continue":
                raise BadExpectation(expected)
            if length > self._max_body and not chunked:
                raise TooLarge
            self._stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request = request.without("expect")
        if chunked:
            request = request.without("content-length")
            request.sized = False
            request.body = await self._chunks()
        elif length > self._max_body:
            raise TooLarge(skip=length) if request.keeps_alive else TooLarge(closing=True)
        else:
            stated = request.header("content-length")
            if stated is not None and stated[0] == "0" and stated != "0":
                # The handler gets the value without the zeros.
                request, stated = request.without("content-length"), None
            request.sized = stated is not None
            if length:
                request.body = await self._stream.exactly(length, self._deadline(self._now(), length))
        return request

    async def _chunks(self) -> bytes:
        body = bytearray()  # a list of its chunks would take twenty times the memory, if each has two bytes
        started, received, chunks = self._now(), 0, 0
        while size := chunk_size(await self._line(LONGEST_LINE, self._deadline(started, received))):
            received += size
            if received > self._max_body:
                raise TooLarge(closing=True)
            until = self._deadline(started, received)
            body += await self._stream.exactly(size, until)
            await self._line(LONGEST_LINE, until)
            chunks += 1
            if chunks % _CHUNKS_AT_ONCE == 0:
                await asyncio.sleep(0)
        left, until = MOST_HEADER_BYTES, self._deadline(started, received)
        while trailer := await self._line(left, until):  # trailers are dropped
            left -= len(trailer)
            parse_header(trailer.decode("latin-1"))
        return bytes(body)

    async def _line(self, limit: int, until: float) -> bytes:
        have = self._stream.have
        while (end := have.find(b"\n")) < 0:
            if len(have) > limit:
                raise MalformedRequest("line too long")
            await self._stream.more(len(have) + 1, until)
        line = self._stream.take(end + 1)[:-1].removesuffix(b"\r")
        if len(line) > limit:
            raise MalformedRequest("line too long")
        return line

    async def skip(self, length: int) -> None:
        """Skip a body that was refused; `TooSlow` if it does not arrive in time."""
        # A number of bytes that can be any is no promise of them: each wait is limited, and not by that number.
        while length > 0:
            try:
                await self._stream.more(1, self._now() + self._limits.body)
            except EOFError:
                return
            except TimeoutError as exc:
                raise TooSlow from exc
            offset = min(length, len(self._stream.have))
            self._stream.used(offset)
            length -= offset

    def _deadline(self, started: float, size: int) -> float:
        """The latest time for the end of a body of `size` bytes."""
        return started + self._limits.body + size / self._limits.slowest
