"""HTTP/1.1 out of bytes, lenient and strict where the real server's parser (Netty) is.

Written out rather than taken from a library: what a client can see of DJLServing includes bare line feeds, `HTTP/9.9`,
folded headers, an ignored `Connection: close`, header order and letter case, and no library lets all of that through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lmi_deploy.server.stream import Stream

LONGEST_LINE = 4096
MOST_HEADER_BYTES = 8192

_VERSION = re.compile(r"\S+/\d+\.\d+")
_NAME = re.compile(r"[^\x00-\x20\x7f-\xff:=,;]+")
_BAD_VALUE = re.compile(r"[\x00\x0b\x0c\r]")
_DIGITS = re.compile(r"\d+")
_HEX = re.compile(r"[0-9a-fA-F]+")
_BLANK = (" ", "\t")
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_SPACE, _DELETE = 0x20, 0x7F
_SKIPPED = bytes([*range(33), _DELETE])  # before a request, as the real server's parser does


class Malformed(Exception):
    """Not HTTP: answered with 400 and the connection closed."""


class TooLarge(Exception):
    """The body is over the limit; `kept` tells whether the connection can go on."""

    def __init__(self, *, kept: bool) -> None:
        super().__init__("request body over max_request_size")
        self.kept = kept


class BadExpectation(Exception):
    """An `Expect` other than 100-continue."""


@dataclass(slots=True)
class Request:
    """One request as it came: target undecoded, headers in order with the sender's letter case."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = field(default=b"", repr=False)
    sized: bool = True
    _first: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._first = {name.lower(): value for name, value in reversed(self.headers)}

    def header(self, name: str) -> str | None:
        """The first header of that name, which is given in small letters."""
        return self._first.get(name)

    def without(self, name: str) -> Request:
        """The same request without headers of that name."""
        kept = [pair for pair in self.headers if pair[0].lower() != name]
        return Request(self.method, self.target, kept, self.body, self.sized)


class RequestReader:
    """Reads one request after the other from a connection."""

    def __init__(self, stream: Stream, *, max_body: int) -> None:
        self._stream = stream
        self._max_body = max_body

    async def head(self) -> Request | None:
        """The next request without its body, or None when the client has gone."""
        have = self._stream.have
        while True:
            if have and (have[0] <= _SPACE or have[0] == _DELETE):
                self._stream.used(len(have) - len(have.lstrip(_SKIPPED)))
            if ended := _END_OF_HEAD.search(have):
                return _request(self._stream.take(ended.end())[: ended.start()])
            if not have and self._stream.at_end:
                return None
            if have:
                _check_begun(bytes(have))
            await self._more(len(have))

    async def body(self, request: Request) -> Request:
        """The request with its body."""
        coding = request.header("transfer-encoding")
        chunked = coding is not None and coding.strip().lower().endswith("chunked")
        length = _length(request)
        if (expected := request.header("expect")) is not None:
            self._expectation(expected, length=0 if chunked else length)
        if chunked:
            request = request.without("content-length")
            request.sized = False
            request.body = await self._chunks()
        elif length > self._max_body:
            await self._skip(length)
            raise TooLarge(kept=True)
        else:
            request.sized = request.header("content-length") is not None
            request.body = await self._stream.exactly(length) if length else b""
        return request

    async def _more(self, before: int) -> None:
        try:
            await self._stream.more(before + 1)
        except EOFError:
            if self._stream.have.strip(_SKIPPED):
                raise  # it left in the middle of a head

    async def _line(self, limit: int) -> bytes:
        have = self._stream.have
        while (end := have.find(b"\n")) < 0:
            if len(have) > limit:
                raise Malformed("line too long")
            await self._stream.more(len(have) + 1)
        line = self._stream.take(end + 1)[:-1].removesuffix(b"\r")
        if len(line) > limit:
            raise Malformed("line too long")
        return line

    def _expectation(self, expected: str, *, length: int) -> None:
        if expected.strip().lower() != "100-continue":
            raise BadExpectation(expected)
        if length > self._max_body:
            raise TooLarge(kept=False)
        self._stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        room = self._max_body
        while size := _chunk_size(await self._line(LONGEST_LINE)):
            room -= size
            if room < 0:
                raise TooLarge(kept=False)
            parts.append(await self._stream.exactly(size))
            await self._line(LONGEST_LINE)
        while await self._line(MOST_HEADER_BYTES):
            continue  # trailers are read and dropped
        return b"".join(parts)

    async def _skip(self, length: int) -> None:
        while length > 0:
            try:
                await self._stream.more()
            except EOFError:
                return
            here = min(length, len(self._stream.have))
            self._stream.used(here)
            length -= here


def _request(head: bytes) -> Request:
    """A whole head, without the empty line at its end."""
    first, *lines = _lines(head)
    if len(first) > LONGEST_LINE:
        raise Malformed("line too long")
    words = first.split(None, 2)
    if len(words) < 3 or not _VERSION.fullmatch(words[2].strip()):
        raise Malformed(first)
    return Request(words[0], words[1], _headers(lines))


def _lines(head: bytes) -> list[str]:
    return [line.removesuffix("\r") for line in head.decode("latin-1").split("\n")]


def _check_begun(have: bytes) -> None:
    """`Malformed` as soon as a head that is not all there yet can be none: nothing more needs to come."""
    begun, newline, rest = have.rpartition(b"\n")
    if newline:
        _request(begun)
        left = MOST_HEADER_BYTES - sum(map(len, _lines(begun)[1:]))
    else:
        left = LONGEST_LINE
    if len(rest) > left:
        raise Malformed("line too long")


def _headers(lines: list[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if sum(map(len, lines)) > MOST_HEADER_BYTES:
        raise Malformed("headers too long")
    for line in lines:
        if line[:1] in _BLANK and found:
            name, value = found[-1]
            found[-1] = (name, f"{value} {line.strip()}")
        else:
            found.append(_header(line))
    return found


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _NAME.fullmatch(name) or _BAD_VALUE.search(value):
        raise Malformed(line)
    return name, value.strip()


def _length(request: Request) -> int:
    if (stated := request.header("content-length")) is None:
        return 0
    values = {value for key, value in request.headers if key.lower() == "content-length"}
    if len(values) > 1 or not _DIGITS.fullmatch(stated):
        raise Malformed(f"content-length {sorted(values)}")
    return int(stated)


def _chunk_size(line: bytes) -> int:
    text = line.split(b";")[0].strip().decode("latin-1")
    if not _HEX.fullmatch(text):
        raise Malformed(f"chunk size {text!r}")
    return int(text, 16)
