"""Requests to any number of servers, over connections that are used again."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

from lmi_deploy.errors import UsageRefused
from lmi_deploy.inference_client.connection import HttpConnection, InferenceExchange
from lmi_deploy.inference_client.transfer_errors import ConnectFailed, ConnectionCut

AUTHORITIES = "AWS_CA_BUNDLE"
"""Of the environment: a file of certificate authorities in place of the system's."""
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 30.0
"""An idle connection is not used after that: the server may be about to close it."""


class HttpAddress(NamedTuple):
    """Where a request goes; `path` is sent as it is."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> HttpAddress:
        """ValueError if it is no http or https address."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url}: not an http or https address")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, parts.path or "/")

    @property
    def authority(self) -> str:
        """The Host header: a default port is left out, as in signatures."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


class InferenceClient:
    """Belongs to one event loop. `tls`: None is the system's certificate authorities."""

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, connect_seconds: float = CONNECT_SECONDS
    ) -> None:
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._idle: dict[tuple[str, str, int], list[HttpConnection]] = {}
        self._open: dict[HttpConnection, tuple[str, str, int]] = {}
        self.resent = 0
        """Requests that were sent again, because a used connection was closed without an answer."""

    async def post(
        self, address: HttpAddress, headers: Sequence[tuple[str, str]], body: bytes, *, timeout: float
    ) -> InferenceExchange:
        """The exchange once its head has arrived. `timeout`: seconds without any data. TransferError.

        Sent again only if a connection that had been used before was closed before any answer: the server had closed
        it while it was idle.
        """
        return await self._exchange(address, _head("POST", address, headers, len(body)), body, timeout)

    def start(
        self,
        address: HttpAddress,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        *,
        timeout: float,
        on_end: Callable[[InferenceExchange], None],
    ) -> bool:
        """Post on an idle connection; False if there is none. `on_end` is called when the exchange has ended, or broke:
        it has a `failure`. Nothing is sent again. It needs no task, and wakes none.
        """
        connection = self._take_idle(address)
        if connection is None:
            return False
        connection.start(_head("POST", address, headers, len(body)), body, timeout=timeout, on_end=on_end)
        return True

    async def get(self, address: HttpAddress, *, timeout: float) -> InferenceExchange:
        """As `post`."""
        return await self._exchange(address, _head("GET", address, (), 0), b"", timeout)

    async def _exchange(
        self, address: HttpAddress, head: bytes, body: bytes, timeout: float
    ) -> InferenceExchange:
        while True:
            connection = self._take_idle(address) or await self._connect(address)
            is_used = connection.exchanges > 0
            exchange = connection.start(head, body, timeout=timeout)
            try:
                await exchange.wait_for_head()
            except ConnectionCut as cut:
                if is_used and cut.unanswered:
                    self.resent += 1
                    continue
                raise
            except asyncio.CancelledError:
                exchange.abort()
                raise
            return exchange

    def close(self) -> None:
        for connection in [*self._open]:
            connection.close()

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def _take_idle(self, address: HttpAddress) -> HttpConnection | None:
        idle = self._idle.get(address[:3])
        oldest = time.perf_counter() - IDLE_SECONDS
        while idle:
            connection = idle.pop()
            if connection.is_closed:
                continue
            if connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    async def _connect(self, address: HttpAddress) -> HttpConnection:
        loop = asyncio.get_running_loop()
        secure = address.scheme == "https"
        if secure and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: HttpConnection(loop, self._became_idle, self._closed),
                    address.host,
                    address.port,
                    ssl=self._tls if secure else None,
                )
        except TimeoutError:
            raise ConnectFailed(
                f"no connection to {address.authority} within {self._connect_seconds:g} s"
            ) from None
        except OSError as exc:
            raise ConnectFailed(f"no connection to {address.authority}: {exc.strerror or exc}") from exc
        self._open[connection] = address[:3]
        return connection

    def _became_idle(self, connection: HttpConnection) -> None:
        self._idle.setdefault(self._open[connection], []).append(connection)

    def _closed(self, connection: HttpConnection) -> None:
        origin = self._open.pop(connection, None)
        idle = self._idle.get(origin, []) if origin else []
        if connection in idle:
            idle.remove(connection)


def _head(method: str, address: HttpAddress, headers: Sequence[tuple[str, str]], length: int) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    first = f"{method} {address.path} HTTP/1.1\r\nHost: {address.authority}\r\n"
    return f"{first}{lines}Content-Length: {length}\r\n\r\n".encode("latin-1")


def certificate_authorities(environ: Mapping[str, str]) -> ssl.SSLContext | None:
    path = environ.get(AUTHORITIES)
    return _context_of(path) if path else None


@cache  # a bundle of a Linux distribution takes 50 ms, and `lmi bench` has a client per load
def _context_of(path: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as exc:
        raise UsageRefused(
            f"{AUTHORITIES}: {path}: {exc.strerror or exc}", hint="name a file of certificates in PEM form"
        ) from None
