"""HTTP as bytes on a socket: what was sent, and every visible thing about what came back."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import BinaryIO

PATIENCE = 60.0
CLOSING = 0.05  # how long a server may take to close a connection that it said it would close


@dataclass
class Seen:
    """One answer; `none` says why there is none."""

    none: str = ""
    status: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    chunks: list[bytes] | None = None
    whole: bool = True
    closed: bool = False

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


def converse(
    port: int, raw: bytes, *, method: str = "GET", later: bytes = b"", patience: float = PATIENCE
) -> Seen:
    """Send `raw` on a new connection and read one answer; `later` is sent after an interim answer."""
    try:
        line = socket.create_connection(("127.0.0.1", port), timeout=patience)
    except ConnectionRefusedError:
        return Seen(none="connection refused")
    with line, line.makefile("rb") as reader:
        try:
            line.sendall(raw)
            if later:
                _status_and_headers(reader)
                line.sendall(later)
            seen = _answer(reader, method)
        except TimeoutError:
            return Seen(none=f"no response within {patience:.0f}s")
        except (ConnectionError, EOFError):
            return Seen(none="connection reset without a response", closed=True)
        seen.closed = seen.closed or _closed(line, reader)
        return seen


def pipeline(port: int, raws: list[bytes], methods: list[str]) -> list[Seen]:
    """All requests in one write on one connection, and the answers as they come."""
    found: list[Seen] = []
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line,
        line.makefile("rb") as reader,
    ):
        line.sendall(b"".join(raws))
        for method in methods:
            try:
                found.append(_answer(reader, method))
            except (ConnectionError, EOFError):
                found.append(Seen(none="connection reset without a response", closed=True))
        found[-1].closed = found[-1].closed or _closed(line, reader)
    return found


def _status_and_headers(reader: BinaryIO) -> Seen:
    first = reader.readline().decode("latin-1").rstrip("\r\n")
    if not first:
        raise EOFError
    seen = Seen(status=first.removeprefix("HTTP/1.1 "))
    while text := reader.readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = text.partition(": ")
        seen.headers.append((name, value))
    return seen


def _answer(reader: BinaryIO, method: str) -> Seen:
    seen = _status_and_headers(reader)
    length = seen.header("content-length")
    if method == "HEAD":
        return seen
    if (seen.header("transfer-encoding") or "").lower() == "chunked":
        _chunks(reader, seen)
    elif length is not None and seen.status[:3] not in ("204", "304"):
        seen.body = reader.read(int(length))
    return seen


def _chunks(reader: BinaryIO, seen: Seen) -> None:
    seen.chunks = []
    try:
        while size := int(reader.readline() or b"-1", 16):
            if size < 0:
                raise EOFError
            seen.chunks.append(reader.read(size))
            reader.readline()
        reader.readline()
    except (ConnectionError, EOFError):
        seen.whole, seen.closed = False, True
    seen.body = b"".join(seen.chunks)


def _closed(line: socket.socket, reader: BinaryIO) -> bool:
    line.settimeout(CLOSING)
    try:
        return reader.read(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
