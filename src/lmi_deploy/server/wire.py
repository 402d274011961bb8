"""The binary messages between this server and DJL's Python engine.

Big endian throughout; there is no frame length, so a reader must parse a message to find its end.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Pair = tuple[str, str]
Entry = tuple[str | None, bytes]

STREAM = -1
LARGEST_BLOB = 20_971_520  # what the real server accepts in one blob; one byte more costs it the worker
MOST_PAIRS = 32_767

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


class WireError(Exception):
    """The peer sent something that is no message, or a message that is too large."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a worker; `streamed` answers are followed by frames and have no content of their own."""

    code: int
    message: str
    properties: tuple[Pair, ...] = ()
    content: tuple[Entry, ...] = field(default=(), repr=False)
    streamed: bool = False

    def body(self) -> bytes:
        """What an HTTP client gets: the entry called `data`, else the first one, else nothing."""
        named = next((value for key, value in self.content if key == "data"), None)
        if named is not None:
            return named
        return self.content[0][1] if self.content else b""


def pack_text(text: str | None) -> bytes:
    """Length and UTF-8 bytes; None travels as length -1."""
    if text is None:
        return _I32.pack(-1)
    raw = text.encode("utf-8", "surrogateescape")
    return _I32.pack(len(raw)) + raw


def pack_request(properties: Sequence[Pair], content: Sequence[Entry]) -> bytes:
    """One request, properties in the order given."""
    parts = [_count(properties)]
    for key, value in properties:
        parts += (pack_text(key), pack_text(value))
    parts.append(_count(content))
    for name, blob in content:
        parts += (pack_text(name), _I32.pack(len(blob)), blob)
    return b"".join(parts)


def _count(items: Sequence[object]) -> bytes:
    if len(items) > MOST_PAIRS:
        raise WireError(f"{len(items)} entries in one request: the worker's protocol counts to {MOST_PAIRS}")
    return _I16.pack(len(items))


class WireReader:
    """Reads answers and frames off a worker's socket."""

    def __init__(self, source: asyncio.StreamReader, *, largest: int = LARGEST_BLOB) -> None:
        self._source = source
        self._largest = largest

    async def answer(self) -> Answer:
        """The next answer; `asyncio.IncompleteReadError` when the worker has gone."""
        code = await self._i16()
        message = await self._text() or ""
        properties = tuple(
            [(await self._text() or "", await self._text() or "") for _ in await self._turns()]
        )
        count = await self._i16()
        if count == STREAM:
            return Answer(code, message, properties, streamed=True)
        content = tuple([(await self._text(), await self._blob()) for _ in _turns(count)])
        return Answer(code, message, properties, content)

    async def frame(self) -> tuple[bool, bytes]:
        """The next frame of a streamed answer, and whether more follow."""
        more = (await self._source.readexactly(1)) != b"\x00"
        return more, await self._blob()

    async def _turns(self) -> Iterable[int]:
        return _turns(await self._i16())

    async def _i16(self) -> int:
        value: int = _I16.unpack(await self._source.readexactly(2))[0]
        return value

    async def _length(self) -> int:
        length: int = _I32.unpack(await self._source.readexactly(4))[0]
        if length > self._largest:
            raise WireError(f"an answer of {length} bytes: the limit is {self._largest}")
        return length

    async def _text(self) -> str | None:
        length = await self._length()
        if length < 0:
            return None
        return (await self._source.readexactly(length)).decode("utf-8", "replace")

    async def _blob(self) -> bytes:
        length = await self._length()
        return await self._source.readexactly(length) if length > 0 else b""


def _turns(count: int) -> range:
    if count < 0:
        raise WireError(f"a count of {count} where entries were announced")
    return range(count)


def unpack_map(raw: bytes) -> dict[str, str]:
    """The nested text map that an answer of the asynchronous engine carries as its content."""
    pairs: dict[str, str] = {}
    try:
        (count,) = _I16.unpack_from(raw, 0)
        at = 2
        for _ in _turns(count):
            key, at = _text_at(raw, at)
            pairs[key], at = _text_at(raw, at)
    except struct.error as exc:
        raise WireError("the answer of an async handler holds no map of texts") from exc
    return pairs


def _text_at(raw: bytes, at: int) -> tuple[str, int]:
    (length,) = _I32.unpack_from(raw, at)
    end = at + 4 + max(length, 0)
    if end > len(raw):
        raise WireError("the answer of an async handler is cut off inside its map")
    return raw[at + 4 : end].decode("utf-8", "replace"), end
