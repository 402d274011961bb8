"""HTTP/1.1 on asyncio streams, lenient and strict where the real server's parser (Netty) is.

Written out rather than taken from a library: what a client can see of DJLServing includes bare line feeds, `HTTP/9.9`,
folded headers, an ignored `Connection: close`, header order and letter case, and no library lets all of that through.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

LONGEST_LINE = 4096
MOST_HEADER_BYTES = 8192
READ_AHEAD = 256 * 1024

_VERSION = re.compile(r"\S+/\d+\.\d+")
_NAME = re.compile(r"[^\x00-\x20\x7f-\xff:=,;]+")
_BAD_VALUE = re.compile(r"[\x00\x0b\x0c\r]")
_DIGITS = re.compile(r"\d+")
_HEX = re.compile(r"[0-9a-fA-F]+")
_BLANK = " \t"


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

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        lowered = name.lower()
        return next((value for key, value in self.headers if key.lower() == lowered), None)


class RequestReader:
    """Reads one request after the other from a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, max_body: int) -> None:
        self._reader = reader
        self._writer = writer
        self._max_body = max_body

    async def head(self) -> Request | None:
        """The next request without its body, or None when the client has gone."""
        line = await self._first_line()
        if line is None:
            return None
        words = line.split(None, 2)
        if len(words) < 3 or not _VERSION.fullmatch(words[2].strip()):
            raise Malformed(line)
        return Request(words[0], words[1], await self._headers())

    async def body(self, request: Request) -> None:
        """Read the request's body into it."""
        chunked = _chunked(request)
        length = _length(request)
        await self._expectation(request, chunked=chunked, length=length)
        if chunked:
            request.headers = [h for h in request.headers if h[0].lower() != "content-length"]
            request.sized = False
            request.body = await self._chunks()
        elif length > self._max_body:
            await self._skip(length)
            raise TooLarge(kept=True)
        else:
            request.sized = request.header("content-length") is not None
            request.body = await self._reader.readexactly(length)

    async def _first_line(self) -> str | None:
        while True:
            raw = await self._line(LONGEST_LINE, at_end=True)
            if raw is None:
                return None
            # Blank lines and control characters before a request are skipped.
            line = raw.decode("latin-1").lstrip("".join(map(chr, range(33))) + "\x7f")
            if line:
                return line

    async def _line(self, limit: int, *, at_end: bool = False) -> bytes | None:
        try:
            raw = await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as exc:
            raise Malformed("line too long") from exc
        except asyncio.IncompleteReadError as exc:
            if at_end and not exc.partial.strip():
                return None
            raise
        line = raw[:-1].removesuffix(b"\r")
        if len(line) > limit:
            raise Malformed("line too long")
        return line

    async def _headers(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        left = MOST_HEADER_BYTES
        while True:
            raw = await self._line(left)
            if not raw:
                return found
            left -= len(raw)
            line = raw.decode("latin-1")
            if line[0] in _BLANK and found:
                name, value = found[-1]
                found[-1] = (name, f"{value} {line.strip()}")
            else:
                found.append(_header(line))

    async def _expectation(self, request: Request, *, chunked: bool, length: int) -> None:
        expected = request.header("expect")
        if expected is None:
            return
        if expected.strip().lower() != "100-continue":
            raise BadExpectation(expected)
        if not chunked and length > self._max_body:
            raise TooLarge(kept=False)
        self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        room = self._max_body
        while size := _chunk_size(await self._line(LONGEST_LINE) or b""):
            room -= size
            if room < 0:
                raise TooLarge(kept=False)
            parts.append(await self._reader.readexactly(size))
            await self._line(LONGEST_LINE)
        while await self._line(MOST_HEADER_BYTES):
            continue  # trailers are read and dropped
        return b"".join(parts)

    async def _skip(self, length: int) -> None:
        while length > 0:
            piece = await self._reader.read(min(length, READ_AHEAD))
            if not piece:
                return
            length -= len(piece)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _NAME.fullmatch(name) or _BAD_VALUE.search(value):
        raise Malformed(line)
    return name, value.strip()


def _chunked(request: Request) -> bool:
    coding = request.header("transfer-encoding")
    return coding is not None and coding.strip().lower().endswith("chunked")


def _length(request: Request) -> int:
    values = {value.strip() for key, value in request.headers if key.lower() == "content-length"}
    if not values:
        return 0
    if len(values) > 1 or not _DIGITS.fullmatch(next(iter(values))):
        raise Malformed(f"content-length {sorted(values)}")
    return int(next(iter(values)))


def _chunk_size(line: bytes) -> int:
    text = line.split(b";")[0].strip().decode("latin-1")
    if not _HEX.fullmatch(text):
        raise Malformed(f"chunk size {text!r}")
    return int(text, 16)
