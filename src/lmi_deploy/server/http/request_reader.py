"""Requests from a connection: head, then body, within the limits of size and time."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from lmi_deploy.server.http.parser import (
    LONGEST_LINE,
    MOST_HEADER_BYTES,
    MalformedRequest,
    Request,
    body_length,
    check_request_start,
    check_trailer,
    chunk_size,
    is_chunked,
    parse_head,
)
from lmi_deploy.server.http.stream import Stream

_SPACE = 0x20
_SKIPPED = bytes(range(33))  # before a request, as the real server's parser does
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

    def __init__(self, stream: Stream, *, max_body: int, limits: TimeLimits = USUAL_LIMITS) -> None:
        self._stream = stream
        self._max_body = max_body
        self._limits = limits
        self._now = asyncio.get_running_loop().time

    async def head(self) -> Request | None:
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
                await self._more(len(have), until)
            except TimeoutError as exc:
                raise late from exc

    async def body(self, request: Request) -> Request:
        """The request with its body; `TooSlow` if it does not arrive in time."""
        try:
            return await self._with_body(request)
        except TimeoutError as exc:
            raise TooSlow from exc
        except MalformedRequest as exc:
            exc.request = request
            raise

    async def _with_body(self, request: Request) -> Request:
        chunked = is_chunked(request)
        length = body_length(request)
        if (expected := request.header("expect")) is not None and request.version >= "HTTP/1.1":
            self._expectation(expected, length=0 if chunked else length)
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
                request, stated = (
                    request.without("content-length"),
                    None,
                )  # the handler gets the value without the zeros
            request.sized = stated is not None
            request.body = await self._sized(length) if length else b""
        return request

    async def _more(self, before: int, until: float) -> None:
        try:
            await self._stream.more(before + 1, until)
        except EOFError:
            if self._stream.have.strip(_SKIPPED):
                raise  # it left in the middle of a head

    def _expectation(self, expected: str, *, length: int) -> None:
        if expected.strip().lower() != "100-continue":
            raise BadExpectation(expected)
        if length > self._max_body:
            raise TooLarge
        self._stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _sized(self, length: int) -> bytes:
        if len(self._stream.have) < length:
            await self._stream.more(length, self._deadline(self._now(), length))
        return self._stream.take(length)

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        started, received = self._now(), 0
        while size := chunk_size(await self._line(LONGEST_LINE, self._deadline(started, received))):
            received += size
            if received > self._max_body:
                raise TooLarge(closing=True)
            until = self._deadline(started, received)
            await self._stream.more(size, until)
            parts.append(self._stream.take(size))
            await self._line(LONGEST_LINE, until)
        await self._trailers(self._deadline(started, received))
        return b"".join(parts)

    async def _trailers(self, until: float) -> None:
        """They are read and dropped."""
        left = MOST_HEADER_BYTES
        while line := await self._line(left, until):
            left -= len(line)
            check_trailer(line.decode("latin-1"))

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
        try:
            await self._skip(length)
        except TimeoutError as exc:
            raise TooSlow from exc

    async def _skip(self, length: int) -> None:
        # A number of bytes that can be any is no promise of them: each wait is limited, and not by that number.
        while length > 0:
            try:
                await self._stream.more(1, self._now() + self._limits.body)
            except EOFError:
                return
            offset = min(length, len(self._stream.have))
            self._stream.used(offset)
            length -= offset

    def _deadline(self, started: float, size: int) -> float:
        """The latest time for the end of a body of `size` bytes."""
        return started + self._limits.body + size / self._limits.slowest
