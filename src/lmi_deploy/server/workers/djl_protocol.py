"""The binary messages between this server and DJL's Python engine.

Big endian throughout; there is no frame length, so a reader must parse a message to find its end.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from lmi_deploy.server.http.socket_stream import SocketStream

Pair = tuple[str, str]
Entry = tuple[str | None, bytes]

STREAM = -1
LARGEST_BLOB = 20_971_520  # the maximum of one blob in the real server; one byte more kills its worker
MOST_PAIRS = 32_767

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


class WireError(Exception):
    """The peer sent something that is no message, or a message that is too large."""


@dataclass(frozen=True, slots=True)
class WorkerResponse:
    """One response of a worker; `streamed` ones are followed by frames and have no content of their own."""

    code: int
    message: str
    properties: tuple[Pair, ...] = ()
    content: tuple[Entry, ...] = field(default=(), repr=False)
    streamed: bool = False

    def body(self) -> bytes:
        """The body for an HTTP client: the entry `data`, else the first one, else empty."""
        named = next((value for key, value in self.content if key == "data"), None)
        if named is not None:
            return named
        return self.content[0][1] if self.content else b""


def alphabetical(properties: Sequence[Pair]) -> list[Pair]:
    """The order of properties on the wire and of headers in a response: letter case ignored."""
    return sorted(properties, key=lambda pair: pair[0].lower())


def pack_text(text: str | None) -> bytes:
    """Length and UTF-8 bytes; None travels as length -1."""
    if text is None:
        return _I32.pack(-1)
    raw = text.encode("utf-8", "surrogateescape")
    return _I32.pack(len(raw)) + raw


def pack_request(properties: Sequence[Pair], content: Sequence[Entry]) -> bytes:
    """One request, properties in the order given."""
    parts = [_count(properties)]
    for pair in properties:
        for text in pair:
            raw = text.encode("utf-8", "surrogateescape")
            parts += (_I32.pack(len(raw)), raw)
    parts.append(_count(content))
    for name, blob in content:
        parts += (pack_text(name), _I32.pack(len(blob)), blob)
    return b"".join(parts)


def _count(items: Sequence[object]) -> bytes:
    if len(items) > MOST_PAIRS:
        raise WireError(f"{len(items)} entries in one request: the worker's protocol allows {MOST_PAIRS}")
    return _I16.pack(len(items))


class _Short(Exception):
    """The message is incomplete; it needs at least `need` bytes."""

    def __init__(self, need: int) -> None:
        super().__init__(need)
        self.need = need


class WireReader:
    """Reads responses and frames from a worker's socket."""

    def __init__(self, stream: SocketStream, *, largest: int = LARGEST_BLOB) -> None:
        self._stream = stream
        self._largest = largest

    async def read_response(self, until: float = math.inf) -> WorkerResponse:
        """The next response; EOFError when the worker is gone, TimeoutError at `until` by the loop's clock."""
        while True:
            try:
                response, size = _read_response(_Cursor(self._stream.have, self._largest))
            except _Short as short:
                await self._stream.more(short.need, until)
            else:
                self._stream.used(size)
                return response

    async def frame(self) -> tuple[bool, bytes]:
        """The next frame of a streamed response, and whether more follow."""
        while True:
            cursor = _Cursor(self._stream.have, self._largest)
            try:
                more, blob = cursor.raw(1) != b"\x00", cursor.blob()
            except _Short as short:
                await self._stream.more(short.need)
            else:
                self._stream.used(cursor.at)
                return more, blob


class _Cursor:
    """A place in the bytes that were received."""

    def __init__(self, have: bytearray, largest: int) -> None:
        self.at = 0
        self._have = have
        self._largest = largest

    def i16(self) -> int:
        self.at += 2
        if self.at > len(self._have):
            raise _Short(self.at)
        value: int = _I16.unpack_from(self._have, self.at - 2)[0]
        return value

    def raw(self, size: int) -> bytearray:
        begin = self.at
        self.at += size
        if self.at > len(self._have):
            raise _Short(self.at)
        return self._have[begin : self.at]

    def length(self) -> int:
        self.at += 4
        if self.at > len(self._have):
            raise _Short(self.at)
        length: int = _I32.unpack_from(self._have, self.at - 4)[0]
        if length > self._largest:
            raise WireError(f"a response of {length} bytes: the limit is {self._largest}")
        return length

    def text(self) -> str | None:
        length = self.length()
        return None if length < 0 else self.raw(length).decode("utf-8", "replace")

    def blob(self) -> bytes:
        begin = self.at + 4
        self.at = begin + max(self.length(), 0)
        if self.at > len(self._have):
            raise _Short(self.at)
        return bytes(memoryview(self._have)[begin : self.at])


def _read_response(at: _Cursor) -> tuple[WorkerResponse, int]:
    """One response, and its size in bytes."""
    code = at.i16()
    message = at.text() or ""
    properties = tuple([(at.text() or "", at.text() or "") for _ in _turns(at.i16())])
    count = at.i16()
    if count == STREAM:
        return WorkerResponse(code, message, properties, streamed=True), at.at
    content = tuple([(at.text(), at.blob()) for _ in _turns(count)])
    return WorkerResponse(code, message, properties, content), at.at


def _turns(count: int) -> range:
    if count < 0:
        raise WireError(f"a negative number of entries: {count}")
    return range(count)


def unpack_map(raw: bytes) -> dict[str, str]:
    """The nested text map in the content of an asynchronous engine's response."""
    pairs: dict[str, str] = {}
    try:
        (count,) = _I16.unpack_from(raw, 0)
        at = 2
        for _ in _turns(count):
            key, at = _text_at(raw, at)
            pairs[key], at = _text_at(raw, at)
    except struct.error as exc:
        raise WireError("the response of an async handler contains no map of strings") from exc
    return pairs


def _text_at(raw: bytes, at: int) -> tuple[str, int]:
    (length,) = _I32.unpack_from(raw, at)
    end = at + 4 + max(length, 0)
    if end > len(raw):
        raise WireError("the response of an async handler ends inside its map")
    return raw[at + 4 : end].decode("utf-8", "replace"), end
