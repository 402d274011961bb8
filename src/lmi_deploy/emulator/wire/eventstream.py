"""`application/vnd.amazon.eventstream`: length, headers length, CRC, headers, payload, CRC."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Final

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"
_STRING: Final = 7
_OVERHEAD: Final = 16


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message of the stream; every header that AWS sends in this service is a string."""
    head = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack("!II", _OVERHEAD + len(head) + len(payload), len(head))
    body = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return body + struct.pack("!I", zlib.crc32(body))


def event(kind: str, payload: bytes, *, content_type: str = "application/octet-stream") -> bytes:
    return message({":event-type": kind, ":content-type": content_type, ":message-type": "event"}, payload)


def exception(kind: str, fields: Mapping[str, str]) -> bytes:
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return message(headers, json.dumps(fields).encode())


def _header(name: str, value: str) -> bytes:
    label, text = name.encode(), value.encode()
    return struct.pack("!B", len(label)) + label + struct.pack("!BH", _STRING, len(text)) + text
