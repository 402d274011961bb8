"""The control socket: one JSON line in, one JSON line out; and a listening socket passed from server to server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

SOCKET_NAME = "control.sock"
ACCEPTING = b"accepting\n"
TIMEOUT = 10.0
WATCH_SECONDS = 1.0
_LONGEST = 65536

Message = dict[str, object]
Verb = Callable[[Message], Awaitable[Message]]


class ControlError(Exception):
    """The command cannot be carried out; the client receives the message as `error`."""


class ControlSocket:
    """Serves the socket; `hand_over` is handled here because it passes a descriptor and waits for thanks."""

    def __init__(self, path: Path, verbs: Mapping[str, Verb], hand_over: Callable[[], socket.socket]) -> None:
        self._path = path
        self._verbs = verbs
        self._hand_over = hand_over
        self._server: asyncio.Server | None = None
        self._identity: tuple[int, int] | None = None
        self.handed_over = asyncio.Event()

    async def open(self) -> None:
        """Listen, readable by the owner alone. A socket left by a killed server is replaced."""
        self._path.unlink(missing_ok=True)
        own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        own.bind(str(self._path))
        self._path.chmod(0o600)
        self._identity = _identity(self._path)
        self._server = await asyncio.start_unix_server(self._client, sock=own)

    async def lost(self) -> None:
        """Return when the socket's name is gone or belongs to another process: no client can reach this server any
        more.
        """
        while _identity(self._path) == self._identity:
            await asyncio.sleep(WATCH_SECONDS)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if _identity(self._path) == self._identity:
            self._path.unlink(missing_ok=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                line = await reader.readline()
            await self._respond(line, reader, writer)
        except (OSError, TimeoutError, ValueError, asyncio.CancelledError):
            # Cancelled when the server ends: asyncio of Python 3.11 would log a traceback for such a task.
            writer.transport.abort()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _respond(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            requested = _parse_command(line)
            if requested.get("do") == "hand_over":
                await self._give(reader, writer)
                return
            verb = self._verbs.get(str(requested.get("do")))
            if verb is None:
                names = ", ".join(sorted(self._verbs))
                raise ControlError(f"do={requested.get('do')}: unknown; use one of {names}")
            response = await verb(requested)
        except ControlError as exc:
            response = {"error": str(exc)}
        writer.write(json.dumps(response).encode() + b"\n")
        await writer.drain()

    async def _give(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listening = self._hand_over()
        with writer.get_extra_info("socket").dup() as line:
            socket.send_fds(line, [b'{"port": %d}\n' % listening.getsockname()[1]], [listening.fileno()])
        # This server stops only after the other one accepts: if the other one fails earlier, this one still serves.
        async with asyncio.timeout(TIMEOUT):
            thanks = await reader.readline()
        if thanks == ACCEPTING:
            self.handed_over.set()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _parse_command(line: bytes) -> Message:
    try:
        requested = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise ControlError("the request must be one JSON object on one line") from exc
    if not isinstance(requested, dict):
        raise ControlError("the request must be one JSON object on one line")
    return requested


class SocketHandover:
    """Request the listening socket of another server over its control socket."""

    def __init__(self, path: str) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.settimeout(TIMEOUT)
        self._path = path

    def fetch(self) -> socket.socket:
        """Blocking; `ControlError` when the other server does not part with it."""
        try:
            self._line.connect(self._path)
            self._line.sendall(b'{"do": "hand_over"}\n')
            output, handles, _, _ = socket.recv_fds(self._line, _LONGEST, 1)
        except OSError as exc:
            raise ControlError(f"{self._path}: the server does not answer: {exc}") from exc
        if not handles:
            raise ControlError(
                f"{self._path}: {output.decode('utf-8', 'replace').strip() or 'the server sent no socket'}"
            )
        listening = socket.socket(fileno=handles[0])
        listening.setblocking(False)
        return listening

    def confirm(self) -> None:
        """Confirm to the other server that this one accepts connections: it drains and exits."""
        self._line.sendall(ACCEPTING)
        self._line.close()

    def close(self) -> None:
        self._line.close()
