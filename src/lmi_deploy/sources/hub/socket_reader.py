"""Read the body of a response into a buffer: many connections, a few threads at a time.

TLS returns 16 KiB at most for each call, and every call releases Python's lock and acquires it again. Sixteen threads
that do this at once spend more time on passing the lock to each other than on the bytes. So a thread waits until its
connection has data, and then reads all of it in one turn; few threads have a turn at once.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any, Final

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.sources.download_retry import RetryableError

STEP: Final = MIB
"""Maximum bytes per step: small, so that the hasher reads data still in the CPU cache."""
_BUFFER_SIZE: Final = 4 * STEP
_TURNS: Final = 2
"""More threads than these are not faster (measured: `python -m benchmarks transfer`)."""

Line = http.client.HTTPConnection
Response = http.client.HTTPResponse


class SocketReader:
    """One for all connections of a transfer, from any number of threads."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._turns = threading.BoundedSemaphore(_TURNS)

    def received(
        self, line: Line, response: Response, buffer: memoryview, *, beyond: int = 0
    ) -> Iterator[int]:
        """Fill the buffer; yields how far it is filled. `beyond`: bytes that will follow.

        Raises RetryableError, OSError (TimeoutError: no data for so long), HTTPException.
        """
        stop, total, done = len(buffer), response.length, 0
        try:
            if line.sock is not None and total is not None and total >= stop:
                done = _buffered_bytes(response, buffer)
                if done:
                    yield done
                for received in self._direct(line.sock, buffer[done : stop - 1]):
                    done += received
                    response.length = total - done
                    yield done
            # The rest through the response itself: at its end it returns its connection.
            while done < stop:
                done += _receive_some(response.readinto(buffer[done : done + STEP]))
                yield done
        except EOFError:
            raise RetryableError(f"the response ended {stop + beyond - done} bytes early") from None

    def _direct(self, sock: socket.socket, buffer: memoryview) -> Iterator[int]:
        """The number of bytes of each turn."""
        before, waiting, done = sock.gettimeout(), select.poll(), 0
        waiting.register(sock, select.POLLIN)
        sock.settimeout(0)
        while done < len(buffer):
            if not _decrypted(sock) and not waiting.poll(self._timeout * 1000):
                raise TimeoutError
            with self._turns:
                received = _receive(sock, buffer[done : done + STEP])
            done += received
            yield received
        sock.settimeout(before)  # else the connection is not reused

    def chunks(self, line: Line, response: Response) -> Iterator[memoryview]:
        """The whole body; each piece is valid until the next is requested. With chunked encoding it may end early."""
        buffer = memoryview(bytearray(min(_BUFFER_SIZE, response.length or 0)))
        while (left := response.length) is not None and left > 0:
            part, done = buffer[:left], 0
            for come in self.received(line, response, part, beyond=left - len(part)):
                yield part[done:come]
                done = come
        while chunk := response.read1(STEP):
            yield memoryview(chunk)


def _receive_some(count: int) -> int:
    if not count:
        raise EOFError
    return count


def _buffered_bytes(response: Response, buffer: memoryview) -> int:
    """The bytes that were read together with the headers are buffered in the response."""
    return response.readinto(buffer[: min(len(response.peek(1)), len(buffer) - 1)])


def _decrypted(sock: socket.socket) -> int:
    return sock.pending() if isinstance(sock, ssl.SSLSocket) else 0


def _receive(sock: socket.socket, buffer: memoryview) -> int:
    """All available bytes, without waiting for more."""
    # `read` and not `recv_into`, which takes twice the time per call.
    read: Any = sock.read if isinstance(sock, ssl.SSLSocket) else _plain(sock)
    done, stop = 0, len(buffer)
    try:
        while done < stop:
            done += _receive_some(read(stop - done, buffer[done:]))
    except EOFError:
        return _receive_some(done)  # seen again in the next turn
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
        pass
    return done


def _plain(sock: socket.socket) -> Any:
    return lambda count, buffer: sock.recv_into(buffer, count)
