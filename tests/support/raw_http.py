"""HTTP as bytes on a socket: sends requests, and parses all visible parts of the responses."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import BinaryIO

TIMEOUT = 60.0
CLOSING = 0.05  # how long a server may take to close a connection after it announced the close


@dataclass
class RawResponse:
    """One response; `none` says why there is none."""

    none: str = ""
    status: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    chunks: list[bytes] | None = None
    is_complete: bool = True
    closed: bool = False

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


def converse(
    port: int, raw: bytes, *, method: str = "GET", later: bytes = b"", timeout: float = TIMEOUT
) -> RawResponse:
    """Send `raw` on a new connection and read one response; `later` is sent after an interim response."""
    try:
        line = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    except ConnectionRefusedError:
        return RawResponse(none="connection refused")
    with line, line.makefile("rb") as reader:
        try:
            line.sendall(raw)
            if later:
                _status_and_headers(reader)
                line.sendall(later)
            response = _read_response(reader, method)
        except TimeoutError:
            return RawResponse(none=f"no response within {timeout:.0f}s")
        except (ConnectionError, EOFError):
            return RawResponse(none="connection reset without a response", closed=True)
        response.closed = response.closed or _closed(line, reader)
        return response


def pipeline(port: int, raws: list[bytes], methods: list[str]) -> list[RawResponse]:
    """All requests in one write on one connection; yields the responses as they come."""
    found: list[RawResponse] = []
    with (
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as line,
        line.makefile("rb") as reader,
    ):
        line.sendall(b"".join(raws))
        for method in methods:
            try:
                found.append(_read_response(reader, method))
            except (ConnectionError, EOFError):
                found.append(RawResponse(none="connection reset without a response", closed=True))
        found[-1].closed = found[-1].closed or _closed(line, reader)
    return found


def _status_and_headers(reader: BinaryIO) -> RawResponse:
    first = reader.readline().decode("latin-1").rstrip("\r\n")
    if not first:
        raise EOFError
    response = RawResponse(status=first.removeprefix("HTTP/1.1 "))
    while text := reader.readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = text.partition(": ")
        response.headers.append((name, value))
    return response


def _read_response(reader: BinaryIO, method: str) -> RawResponse:
    response = _status_and_headers(reader)
    length = response.header("content-length")
    if method == "HEAD":
        return response
    if (response.header("transfer-encoding") or "").lower() == "chunked":
        _chunks(reader, response)
    elif length is not None and response.status[:3] not in ("204", "304"):
        response.body = reader.read(int(length))
    return response


def _chunks(reader: BinaryIO, response: RawResponse) -> None:
    response.chunks = []
    try:
        while size := int(reader.readline() or b"-1", 16):
            if size < 0:
                raise EOFError
            response.chunks.append(reader.read(size))
            reader.readline()
        reader.readline()
    except (ConnectionError, EOFError):
        response.is_complete, response.closed = False, True
    response.body = b"".join(response.chunks)


def _closed(line: socket.socket, reader: BinaryIO) -> bool:
    line.settimeout(CLOSING)
    try:
        return reader.read(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
