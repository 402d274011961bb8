"""The body of an answer, from the connection into a buffer: many connections, a few threads at a time.

TLS gives 16 KiB at most for each call, and every call lets go of Python's lock and takes it again. Sixteen threads
that do this at once spend more of their time on handing the lock to each other than on the bytes. So a thread waits
until its connection has something, and then takes all that is there in one turn; turns are few.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any, Final

from lmi_deploy.sources.hub.retry import Broken

STEP: Final = 1 << 20
"""Bytes of one turn at most: whoever sums what came still finds it in the processor's cache."""
_PIECES: Final = 4 * STEP
_TURNS: Final = 2
"""More threads than these bring no more bytes (measured: `python -m benchmarks transfer`)."""

Line = http.client.HTTPConnection
Answer = http.client.HTTPResponse


class Receiver:
    """One for all connections of a transfer, from any number of threads."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._turns = threading.BoundedSemaphore(_TURNS)

    def received(self, line: Line, answer: Answer, buffer: memoryview, *, beyond: int = 0) -> Iterator[int]:
        """Fill the buffer; yields how far it is filled. `beyond`: bytes that are to come after it.

        Raises Broken, OSError (TimeoutError: nothing came for so long), HTTPException.
        """
        stop, whole, done = len(buffer), answer.length, 0
        try:
            if line.sock is not None and whole is not None and whole >= stop:
                done = _what_came_along(answer, buffer)
                if done:
                    yield done
                for came in self._direct(line.sock, buffer[done : stop - 1]):
                    done += came
                    answer.length = whole - done
                    yield done
            # The rest by the answer itself: read to its end, it gives its connection back.
            while done < stop:
                done += _some(answer.readinto(buffer[done : done + STEP]))
                yield done
        except EOFError:
            raise Broken(f"the answer ended {stop + beyond - done} bytes early") from None

    def _direct(self, sock: socket.socket, buffer: memoryview) -> Iterator[int]:
        """How many bytes each turn brought."""
        before, waiting, done = sock.gettimeout(), select.poll(), 0
        waiting.register(sock, select.POLLIN)
        sock.settimeout(0)
        while done < len(buffer):
            if not _decrypted(sock) and not waiting.poll(self._patience * 1000):
                raise TimeoutError
            with self._turns:
                came = _taken(sock, buffer[done : done + STEP])
            done += came
            yield came
        sock.settimeout(before)  # else nobody uses the connection again

    def pieces(self, line: Line, answer: Answer) -> Iterator[memoryview]:
        """The whole body; each piece is good until the next is asked for. Where chunks end it, it may end early."""
        buffer = memoryview(bytearray(min(_PIECES, answer.length or 0)))
        while (left := answer.length) is not None and left > 0:
            piece, done = buffer[:left], 0
            for come in self.received(line, answer, piece, beyond=left - len(piece)):
                yield piece[done:come]
                done = come
        while chunk := answer.read1(STEP):
            yield memoryview(chunk)


def _some(count: int) -> int:
    if not count:
        raise EOFError
    return count


def _what_came_along(answer: Answer, buffer: memoryview) -> int:
    """What was read with the headers lies in the answer."""
    return answer.readinto(buffer[: min(len(answer.peek(1)), len(buffer) - 1)])


def _decrypted(sock: socket.socket) -> int:
    return sock.pending() if isinstance(sock, ssl.SSLSocket) else 0


def _taken(sock: socket.socket, buffer: memoryview) -> int:
    """All that is there, without waiting for more."""
    # `read` and not `recv_into`, which takes twice the time to come to it.
    read: Any = sock.read if isinstance(sock, ssl.SSLSocket) else _plain(sock)
    done, stop = 0, len(buffer)
    try:
        while done < stop:
            done += _some(read(stop - done, buffer[done:]))
    except EOFError:
        return _some(done)  # seen again in the next turn
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
        pass
    return done


def _plain(sock: socket.socket) -> Any:
    return lambda count, buffer: sock.recv_into(buffer, count)
