"""A proxy of raw bytes: connections are dropped, delayed, cut, stalled and corrupted by the fault rules.

A rule sees each direction of a connection as a request of method `BYTES` with the path `/up/<service>` (from the
client) or `/down/<service>` (to it); places count from the direction's first byte.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, assert_never
from urllib.parse import urlsplit

from lmi_deploy.emulator.faults.rules import (
    Call,
    Drop,
    End,
    FaultRule,
    FaultRules,
    Hang,
    Pause,
    Send,
    Step,
    inject,
)

HOST: Final = "127.0.0.1"
_CHUNK: Final = 1 << 16
_POLL: Final = 0.1


@dataclass(slots=True)
class _Connection:
    """Both sockets, and whether the connection is closed; the side that closes it sets how."""

    client: socket.socket
    server: socket.socket
    over: threading.Event = field(default_factory=threading.Event)
    reset: bool = False

    def end(self, *, reset: bool = False) -> None:
        self.reset = self.reset or reset
        self.over.set()

    def close(self) -> None:
        for one in (self.client, self.server):
            with contextlib.suppress(OSError):
                if self.reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.close()


class ByteProxy:
    """Placed in front of a server at `http://host:port`; uses threads, because bytes arrive at any time."""

    def __init__(self, service: str, target: str, faults: FaultRules, *, port: int = 0) -> None:
        parts = urlsplit(target)
        self._service = service
        self._target = (parts.hostname or HOST, parts.port or 80)
        self._faults = faults
        self._stop = threading.Event()
        self._listener = socket.create_server((HOST, port))
        self._accepting = threading.Thread(target=self._accept, name=f"proxy of {service}", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._listener.getsockname()[1]}"

    def start(self) -> None:
        self._accepting.start()

    def close(self) -> None:
        self._stop.set()
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            if select.select([self._listener], [], [], _POLL)[0]:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        existing = _Connection(client, server)
        # Both before any byte: a rule may replace the bytes.
        up, down = (self._faults.apply(Call("BYTES", f"/{way}/{self._service}")) for way in ("up", "down"))
        upstream = threading.Thread(target=self._pump, args=(existing, client, server, up), daemon=True)
        upstream.start()
        self._pump(existing, server, client, down)
        upstream.join()
        existing.close()

    def _pump(
        self, existing: _Connection, source: socket.socket, sink: socket.socket, rule: FaultRule | None
    ) -> None:
        try:
            for step in self._steps(rule, self._chunks(existing, source)):
                match step:
                    case Send(content=content):
                        sink.sendall(content)
                    case Pause(seconds=seconds):
                        self._stop.wait(seconds)
                    case End(reset=reset):
                        existing.end(reset=reset)
                        return
                    case _:
                        assert_never(step)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            existing.end()

    def _steps(self, rule: FaultRule | None, chunks: Iterator[bytes]) -> Iterator[Step]:
        if rule is None:
            yield from (Send(chunk) for chunk in chunks)
            return
        yield Pause(rule.delay)
        match rule.do:
            case Drop(reset=reset):
                yield End(reset)
            case Hang(seconds=seconds):
                yield Pause(seconds)
                yield End(reset=False)
            case action:
                yield from inject(action, chunks)

    def _chunks(self, existing: _Connection, source: socket.socket) -> Iterator[bytes]:
        """Until its end, or the connection's."""
        while not existing.over.is_set() and not self._stop.is_set():
            if select.select([source], [], [], _POLL)[0]:
                chunk = source.recv(_CHUNK)
                if not chunk:
                    return
                yield chunk
