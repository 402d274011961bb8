"""Decode `application/vnd.amazon.eventstream`, in which SageMaker streams a response: messages with a length, headers,
a payload and two checksums. Pure.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from lmi_deploy.domain.crc32 import crc32

_PRELUDE: Final = struct.Struct("!III")
_WORD: Final = struct.Struct("!I")
_OVERHEAD: Final = 16
_LONGEST: Final = 25 * 1024 * 1024
"""More than any message of AWS (24 MiB of payload, 128 KiB of headers): a length beyond it is damage."""
_STRING: Final = 7
_FIXED: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of the values of the other types of header; types 6 and 7 have a length of their own."""
_BYTES: Final = 6


class DamagedStream(Exception):
    """A checksum, a length or a header is wrong, or the stream ends inside a message."""


class StreamMessage(NamedTuple):
    """One message; headers that are no text are left out."""

    headers: dict[str, str]
    payload: bytes


class EventStreamDecoder:
    """The messages in bytes that arrive in any pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._known: dict[bytes, dict[str, str]] = {}
        """Headers by their bytes: those of all parts of a stream are the same."""

    def feed(self, data: bytes) -> list[StreamMessage]:
        """The messages that are complete with `data`. DamagedStream."""
        data = self._rest + data if self._rest else data
        messages, start, end = [], 0, len(data)
        while end - start >= _PRELUDE.size:
            total, header_size, checksum = _PRELUDE.unpack_from(data, start)
            if crc32(data[start : start + 8]) != checksum:
                raise DamagedStream("the checksum of a length is wrong")
            if not _OVERHEAD + header_size <= total <= _LONGEST:
                raise DamagedStream(f"a message of {total} bytes with {header_size} of headers")
            if end - start < total:
                break
            messages.append(self._message(data[start : start + total], header_size))
            start += total
        self._rest = data[start:]
        return messages

    def close(self) -> None:
        """DamagedStream if the last message is incomplete."""
        if self._rest:
            raise DamagedStream(f"it ends inside a message, after {len(self._rest)} bytes of it")

    def _message(self, message: bytes, header_size: int) -> StreamMessage:
        if crc32(message[:-4]) != _WORD.unpack_from(message, len(message) - 4)[0]:
            raise DamagedStream("the checksum of a message is wrong")
        head = message[12 : 12 + header_size]
        if head not in self._known:
            self._known = {head: _headers(head)}
        return StreamMessage(self._known[head], message[12 + header_size : -4])


def _headers(head: bytes) -> dict[str, str]:
    found, at = {}, 0
    try:
        while at < len(head):
            size = head[at]
            name, kind, at = head[at + 1 : at + 1 + size].decode(), head[at + 1 + size], at + 2 + size
            if kind in (_STRING, _BYTES):
                length = int.from_bytes(head[at : at + 2], "big")
                value, at = head[at + 2 : at + 2 + length], at + 2 + length
                if kind == _STRING:
                    found[name] = value.decode()
            else:
                at += _FIXED[kind]
    except (IndexError, KeyError, UnicodeDecodeError) as exc:
        raise DamagedStream("the headers of a message cannot be read") from exc
    if at != len(head):
        raise DamagedStream("the headers of a message are longer than stated")
    return found
