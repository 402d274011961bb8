"""The listening socket and its connections."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

from lmi_deploy.server.http.client_connection import Application, ClientConnection
from lmi_deploy.server.log import Log
from lmi_deploy.server.server_settings import ServerSettings

BACKLOG = 1024
LEFT_CHECK = 0.2  # seconds between two looks for clients that left
LINGER = 1.0  # seconds for another request on a kept connection after its port moved


class Listener:
    """Accepts on one socket at a time; the socket can be given away or replaced."""

    def __init__(self, settings: ServerSettings, application: Application, log: Log) -> None:
        self._settings = settings
        self._application = application
        self._log = log
        self.port = 0  # reported even after another server took the socket over
        self.socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._connections: dict[ClientConnection, asyncio.Task[None]] = {}
        self._draining = False

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def reserve(self, host: str, port: int) -> None:
        """Bind, but do not listen: the port is ours, and clients are still refused. OSError if it is taken."""
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        own = socket.socket(family, kind, proto)
        try:
            _bind(own, address)
        except OSError:
            own.close()
            raise
        self.socket = own
        self.port = own.getsockname()[1]

    async def open(self) -> None:
        """Accept clients on the reserved socket."""
        assert self.socket is not None, "reserved before it is opened"
        loop = asyncio.get_running_loop()
        # The connections inherit it: their remains do not block the port for the next server.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server = await loop.create_server(
            lambda: ClientConnection(self._settings, self._application, self._opened, self._log),
            sock=self.socket,
            backlog=BACKLOG,
        )

    async def replace(self, other: socket.socket) -> None:
        """Accept on another server's socket, and close our own."""
        before, self.socket = self._server, other
        self.port = other.getsockname()[1]
        await self.open()
        if before is not None:
            before.close()

    def close(self) -> None:
        """Accept no more connections; a copy of the socket in another process still accepts."""
        if self._server is not None:
            self._server.close()
        elif self.socket is not None:
            self.socket.close()

    async def drain(self, *, linger: float) -> None:
        """Wait for every request in progress; kept connections without one are closed after `linger` seconds."""
        self._draining = True
        for connection in self._connections:
            connection.draining = True
        if linger and self._connections:
            await asyncio.wait(set(self._connections.values()), timeout=linger)
        for connection in self._connections:
            if connection.idle:
                connection.close()
        while self._connections:
            for connection, task in self._connections.items():
                if connection.left:
                    task.cancel()  # no client waits for this response
            await asyncio.wait(set(self._connections.values()), timeout=LEFT_CHECK)

    def abort(self) -> None:
        for task in self._connections.values():
            task.cancel()

    def _opened(self, connection: ClientConnection) -> None:
        connection.draining = self._draining
        self._connections[connection] = task = asyncio.create_task(connection.run())
        task.add_done_callback(lambda _: self._connections.pop(connection, None))


def _bind(own: socket.socket, address: Any) -> None:
    """First without SO_REUSEADDR: on Linux, two sockets with it can be bound to one port while neither listens.

    With it if that fails: recently closed connections block a port for a socket without it. And without it again, until
    it listens: so another program that would take the port finds it taken.
    """
    try:
        own.bind(address)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            raise
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind(address)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
