"""Response bodies over TLS and without: read as they arrive, cut, stalled, and the connection reused."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from lmi_deploy.sources.download_retry import RetryableError
from lmi_deploy.sources.hub.socket_reader import STEP, SocketReader
from tests.support.tls import server_context

BODY = Random(5).randbytes(3 * STEP + 12_345)
TIMEOUT = 30.0
"""Time limit in seconds without a byte, where bytes arrive."""
STALL = 1.0
"""The same, where none arrive."""
Answering = Callable[[socket.socket], None]
LineTo = Callable[[Answering], AbstractContextManager[http.client.HTTPConnection]]


def _head(length: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length


def whole(peer: socket.socket) -> None:
    peer.sendall(_head(len(BODY)) + BODY)


def in_crumbs(peer: socket.socket) -> None:
    peer.sendall(_head(len(BODY)))
    for at in range(0, len(BODY), 20_011):
        peer.sendall(BODY[at : at + 20_011])


def chunked(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    peer.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))


def cut(peer: socket.socket) -> None:
    peer.sendall(_head(len(BODY)) + BODY[: STEP + 77])


def longer_than_asked(peer: socket.socket) -> None:
    peer.sendall(_head(len(BODY) + 10) + BODY + b"0123456789")


@contextmanager
def serving(response: Answering, context: ssl.SSLContext | None) -> Iterator[int]:
    """On each connection one response per request; "cut" ends its connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve(raw: socket.socket) -> None:
            # A client that has what it needs disconnects at any point.
            with suppress(OSError), context.wrap_socket(raw, server_side=True) if context else raw as peer:
                while peer.recv(65536).endswith(b"\r\n\r\n"):
                    response(peer)
                    if response is cut:
                        return

        def accept() -> None:
            while True:
                try:
                    raw, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(raw,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.fixture(params=["TLS", "plain"])
def line_to(request: pytest.FixtureRequest, tmp_path: Path) -> LineTo:
    """Opens a connection to a server with this response."""
    context, authority = server_context(tmp_path) if request.param == "TLS" else (None, None)

    @contextmanager
    def opened(response: Answering) -> Iterator[http.client.HTTPConnection]:
        with serving(response, context) as port:
            trust = ssl.create_default_context(cafile=authority) if authority else None
            line = (
                http.client.HTTPSConnection("localhost", port, context=trust, timeout=TIMEOUT)
                if trust
                else http.client.HTTPConnection("localhost", port, timeout=TIMEOUT)
            )
            line.connect()
            try:
                yield line
            finally:
                line.close()

    return opened


def send_request(line: http.client.HTTPConnection) -> http.client.HTTPResponse:
    line.request("GET", "/")
    return line.getresponse()


@pytest.mark.parametrize("response", [whole, in_crumbs])
def test_body_is_read_and_the_connection_is_reused(response: Answering, line_to: LineTo) -> None:
    with line_to(response) as line:
        receiver, sock = SocketReader(TIMEOUT), line.sock
        for _ in range(3):
            reply, buffer = send_request(line), memoryview(bytearray(len(BODY)))
            results = list(receiver.received(line, reply, buffer))
            assert bytes(buffer) == BODY
            assert results == sorted(results)
            assert results[-1] == len(BODY)
            assert reply.isclosed()
            assert line.sock is sock
            assert sock.gettimeout() == TIMEOUT


def test_chunked_body_is_read(line_to: LineTo) -> None:
    with line_to(chunked) as line:
        buffer = memoryview(bytearray(len(BODY)))
        assert list(SocketReader(TIMEOUT).received(line, send_request(line), buffer))[-1] == len(BODY)
        assert bytes(buffer) == BODY


@pytest.mark.parametrize("response", [whole, in_crumbs, chunked])
def test_body_is_yielded_in_chunks_of_limited_size(response: Answering, line_to: LineTo) -> None:
    with line_to(response) as line:
        reply = send_request(line)
        chunks = [bytes(chunk) for chunk in SocketReader(TIMEOUT).chunks(line, reply)]
        assert b"".join(chunks) == BODY
        assert max(map(len, chunks)) <= STEP


def test_bytes_beyond_the_buffer_stay_unread(line_to: LineTo) -> None:
    with line_to(longer_than_asked) as line:
        reply, buffer = send_request(line), memoryview(bytearray(len(BODY)))
        assert list(SocketReader(TIMEOUT).received(line, reply, buffer))[-1] == len(BODY)
        assert bytes(buffer) == BODY
        assert not reply.isclosed()
        assert reply.read() == b"0123456789"


def test_truncated_body_reports_how_much_is_missing(line_to: LineTo) -> None:
    with line_to(cut) as line:
        buffer = memoryview(bytearray(len(BODY)))
        with pytest.raises(RetryableError, match=f"ended {len(BODY) - STEP - 77} bytes early"):
            list(SocketReader(TIMEOUT).received(line, send_request(line), buffer))
        assert bytes(buffer[: STEP + 77]) == BODY[: STEP + 77]


def test_stalled_body_times_out_and_keeps_what_arrived(line_to: LineTo) -> None:
    stalled = threading.Event()

    def stall(peer: socket.socket) -> None:
        peer.sendall(_head(len(BODY)) + BODY[:STEP])
        stalled.wait(60)

    with line_to(stall) as line:
        buffer, results = memoryview(bytearray(len(BODY))), [0]
        try:
            with pytest.raises(TimeoutError):
                results.extend(SocketReader(STALL).received(line, send_request(line), buffer))
        finally:
            stalled.set()
        assert results[-1] == STEP


def test_more_connections_than_turns_are_all_served(line_to: LineTo) -> None:
    receiver = SocketReader(TIMEOUT)

    def one(_: int) -> bytes:
        with line_to(in_crumbs) as line:
            buffer = memoryview(bytearray(len(BODY)))
            for _ in receiver.received(line, send_request(line), buffer):
                pass
            return bytes(buffer)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(8))) == {BODY}
