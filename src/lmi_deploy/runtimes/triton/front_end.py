"""A program: Triton's HTTP server behind /ping and /invocations, as SageMaker's container has them.

Triton's own SageMaker mode listens on every interface (server 2.51: on 0.0.0.0, whatever --http-address says), so here
it serves plain HTTP on loopback. What a mode adds is translated: `POST /invocations` is an inference request to the
default model, `GET /ping` the server's readiness; every other path is passed on unchanged.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import sys
from asyncio import StreamReader, StreamWriter
from dataclasses import dataclass, field

_HOST = "127.0.0.1"
_LONGEST_HEAD = 65536
_CHUNK = 65536
_BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="
_HEADER_SIZE = "inference-header-content-length"
_NOT_READY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
_LENGTH_REQUIRED = b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_LOST = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(slots=True)
class Head:
    """The first line and the headers of a message, their names in lower case."""

    line: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def length(self) -> int | None:
        """Of the body; None: it ends with the connection, or is chunked."""
        value = self.headers.get("content-length", "")
        return int(value) if value.isdigit() else None

    def encoded(self) -> bytes:
        lines = [self.line, *(f"{name}: {value}" for name, value in self.headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def read_head(reader: StreamReader) -> Head | None:
    """None at the end of the connection."""
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return None
    first, *lines = data.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return Head(first, {name.strip().lower(): value.strip() for name, _, value in pairs})


def translated(head: Head, model: str) -> Head:
    """The request as Triton's HTTP server understands it."""
    method, _, rest = head.line.partition(" ")
    target, _, version = rest.rpartition(" ")
    path = target.partition("?")[0]
    headers = {**head.headers, "connection": "keep-alive"}
    # Triton would compress the response, and who passes it on keeps no Content-Encoding (SageMaker's API has none).
    headers.pop("accept-encoding", None)
    if (method, path) == ("GET", "/ping"):
        target = "/v2/health/ready"
    elif (method, path) == ("POST", "/invocations"):
        target = f"/v2/models/{model}/infer"
        kind = headers.get("content-type", "").replace(" ", "")
        if kind.startswith(_BINARY):
            headers[_HEADER_SIZE] = kind.removeprefix(_BINARY)
            headers["content-type"] = "application/octet-stream"
    return Head(f"{method} {target} {version}", headers)


def answered(head: Head) -> Head:
    """Triton's response as SageMaker's clients read it."""
    size = head.headers.get(_HEADER_SIZE)
    if size is None:
        return head
    return Head(head.line, {**head.headers, "content-type": _BINARY + size})


@dataclass(slots=True)
class TritonFrontEnd:
    """Passes each connection on to the server at `port`."""

    model: str
    port: int

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        link: tuple[StreamReader, StreamWriter] | None = None
        try:
            while (request := await read_head(reader)) is not None:
                if "transfer-encoding" in request.headers:
                    writer.write(_LENGTH_REQUIRED)
                    break
                try:
                    link = link or await asyncio.open_connection(_HOST, self.port, limit=_LONGEST_HEAD)
                except OSError:
                    await _copy(reader, None, request.length or 0)
                    writer.write(_NOT_READY)
                    continue
                if not await self._exchange(request, reader, writer, link):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # one of the two has closed its connection
        finally:
            for each in (writer, link[1] if link else None):
                if each is not None:
                    with contextlib.suppress(ConnectionError):
                        await each.drain()
                    each.close()

    async def _exchange(
        self,
        request: Head,
        reader: StreamReader,
        writer: StreamWriter,
        link: tuple[StreamReader, StreamWriter],
    ) -> bool:
        """One request and its response; whether the connection goes on."""
        server_reader, server_writer = link
        server_writer.write(translated(request, self.model).encoded())
        await _copy(reader, server_writer, request.length or 0)
        response = await read_head(server_reader)
        if response is None:
            writer.write(_LOST)
            return False
        writer.write(answered(response).encoded())
        if response.length is None:
            while chunk := await server_reader.read(_CHUNK):
                writer.write(chunk)
                await writer.drain()
            return False
        await _copy(server_reader, writer, response.length)
        return request.headers.get("connection", "").lower() != "close"


async def _copy(reader: StreamReader, writer: StreamWriter | None, length: int) -> None:
    while length > 0:
        chunk = await reader.read(min(length, _CHUNK))
        if not chunk:
            raise ConnectionResetError
        length -= len(chunk)
        if writer is not None:
            writer.write(chunk)
            await writer.drain()
    if writer is not None:
        await writer.drain()


async def run(given: argparse.Namespace) -> int:
    """Until Triton ends; the result is its exit code. SIGTERM and SIGINT are passed on to it."""
    front_end = TritonFrontEnd(given.model, given.triton_port)
    server = await asyncio.start_server(front_end.serve, given.host, given.port, limit=_LONGEST_HEAD)
    async with server:
        triton = await asyncio.create_subprocess_exec(*given.command)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _signal, triton, number)
        code = await triton.wait()
    return code if code >= 0 else 128 - code


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return int(text)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default=_HOST)
    parser.add_argument("--port", type=_port, required=True)
    parser.add_argument("--triton-port", type=_port, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("command", nargs="+", help="Triton's command line")
    return asyncio.run(run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
