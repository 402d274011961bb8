"""One worker: a process of DJL's Python engine and the one connection to it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from pathlib import Path

from lmi_deploy.server import error_responses
from lmi_deploy.server.log import Log
from lmi_deploy.server.models.serving_properties import ServingProperties
from lmi_deploy.server.workers.devices import DevicePlacement
from lmi_deploy.server.workers.worker_command import FIRST_NUMBER, Command, Engine
from lmi_deploy.server.workers.worker_connection import WorkerConnection, WorkerLost, connected
from lmi_deploy.server.workers.worker_process import WorkerProcess, WorkerProcesses

STARTED = "Python engine started."
START_LIMIT = 120.0
MAX_LINES = 40
LONGEST_SOCKET_PATH = 103  # sockaddr_un holds 104 bytes on macOS, including the terminating zero

_LEVEL = re.compile(r"^(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)::")


class LoadFailure(Exception):
    """The worker did not start to serve; `last_lines` are the last lines of its output.

    `text` is for clients: the real server's short message.
    """

    text = "Failed to loaded model."

    def __init__(
        self, phase: str, message: str, *, worker_exit: int | None, last_lines: tuple[str, ...]
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.worker_exit = worker_exit
        self.last_lines = last_lines


class Worker:
    """Start it, use its `connection`, end it."""

    def __init__(
        self,
        engine: Engine,
        settings: ServingProperties,
        place: DevicePlacement,
        log: Log,
        *,
        processes: WorkerProcesses,
    ) -> None:
        self._engine = engine
        self._processes = processes
        self._settings = settings
        self._log = log
        self._command = Command(engine, settings, place, FIRST_NUMBER + next(engine.numbers))
        self._process: WorkerProcess | None = None
        self._connections: list[WorkerConnection] = []
        self._unconnected = self._command.ranks
        self._pumps: list[asyncio.Task[None]] = []
        self._last: deque[str] = deque(maxlen=MAX_LINES)
        self._started = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    @property
    def connection(self) -> WorkerConnection:
        """`WorkerLost` if there is none. Under MPI that of the first process: it distributes the work to the others."""
        if not self._connections:
            raise WorkerLost("Backend Python process is stopped.")
        return self._connections[0]

    @property
    def last_lines(self) -> tuple[str, ...]:
        return tuple(self._last)

    async def start(self) -> None:
        """Process, handshake, connection and the handler's warm-up call; `LoadFailure` if one of them fails."""
        await self._spawn()
        await self._handshake()
        await self._connect()
        await self._initialise()
        self._log.djl("PyProcess", f"Model [{self._settings.name}] initialized.")

    async def stop(self) -> None:
        """End the process and all that it started: close its connection, SIGTERM, SIGKILL; remove its files."""
        for connection in self._connections:
            connection.close()
        if self._process is not None:
            self._log.djl("PyProcess", f"Stop process: -1:{self.pid}, failure=false")
            await self._process.end()
        await asyncio.wait(self._pumps, timeout=0.5) if self._pumps else None
        for pump in self._pumps:
            pump.cancel()
        for socket in self._command.sockets:
            for path in (socket, Path(f"{socket}.pid")):
                path.unlink(missing_ok=True)

    async def exit_reason(self) -> str:
        """How the process ended, once its connection did."""
        await self._wait_for_output()
        return (
            f"the Python process ended with exit code {self.exit_code}"
            if self.exit_code is not None
            else "cut off"
        )

    async def _spawn(self) -> None:
        longest = max(map(str, self._command.sockets), key=len)
        if len(longest) > LONGEST_SOCKET_PATH:
            why = f"{longest}: longer than {LONGEST_SOCKET_PATH} characters, the limit of a socket's path"
            raise self._failure("start", why)
        argv = self._command.argv()
        self._log.djl("PyProcess", f"Start process: {self._command.number} - retry: 0")
        try:
            self._process = await self._processes.start(
                argv, cwd=self._settings.folder, environment=self._command.environment()
            )
        except OSError as exc:
            raise self._failure("start", f"cannot run {argv[0]}: {exc.strerror or exc}") from exc
        self._log.event("worker started", pid=self._process.pid, model=self._settings.name)
        for stream, name in ((self._process.stdout, "stdout"), (self._process.stderr, "stderr")):
            if stream is not None:
                self._pumps.append(asyncio.create_task(self._pump(stream, name)))

    async def _handshake(self) -> None:
        process = self._running()
        ready = asyncio.create_task(self._started.wait())
        missing = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({ready, missing}, timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            missing.cancel()
        if not self._started.is_set():
            await self._wait_for_output()
            why = (
                "ended before it was ready"
                if process.returncode is not None
                else f"was not ready within {START_LIMIT:.0f} s"
            )
            raise self._failure("start", f"the Python process {why}: see its last lines")

    async def _connect(self) -> None:
        places = self._command.addresses
        try:
            for place in places:
                self._connections.append(await connected(place, largest=self._engine.largest_blob))
        except OSError as exc:
            await self._wait_for_output()
            why = f"the worker's socket {places[len(self._connections)]} does not answer: {exc}"
            raise self._failure("start", why) from exc

    async def _initialise(self) -> None:
        limit = self._settings.limits.model_loading_timeout
        try:
            async with asyncio.timeout(limit):
                for connection in self._connections:
                    await connection.send(list(self._settings.initialise.items()), [])
                responses = [await connection.read_response() for connection in self._connections]
        except TimeoutError as exc:
            message = f"model_loading_timeout: the warm-up call took longer than {limit:.0f} s"
            raise self._failure("initialise", message, error_responses.timed_out().message) from exc
        except WorkerLost as exc:
            await self._wait_for_output()
            message = f"the Python process ended with exit code {self.exit_code} during the warm-up call"
            raise self._failure("initialise", message, error_responses.disconnected().message) from exc
        for response in responses:
            if response.code >= 300:
                await self._wait_for_output()
                text = f"Failed to initialize model: {response.message}"
                body = response.body().decode("utf-8", "replace").strip()
                why = f"{response.code} {response.message}" + (f": {body}" if body else "")
                raise self._failure("initialise", f"Failed to initialize model: {why}", text)

    def _running(self) -> WorkerProcess:
        if self._process is None:
            raise WorkerLost("Backend Python process is stopped.")
        return self._process

    async def _wait_for_output(self) -> None:
        """Wait for the output of a dying worker: the user needs its last lines."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._running().wait(), 0.5)
        await asyncio.wait(self._pumps, timeout=0.2) if self._pumps else None

    def _failure(self, phase: str, message: str, text: str | None = None) -> LoadFailure:
        failure = LoadFailure(phase, message, worker_exit=self.exit_code, last_lines=self.last_lines)
        if text is not None:
            failure.text = text
        return failure

    async def _pump(self, stream: asyncio.StreamReader, name: str) -> None:
        rest = b""
        while chunk := await stream.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > 1 << 16:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._handle_line(line.decode("utf-8", "replace").rstrip("\r"), name)
        if rest:
            self._handle_line(rest.decode("utf-8", "replace"), name)

    def _handle_line(self, line: str, name: str) -> None:
        if "ModelServerTelemetry:" in line:
            return
        if STARTED in line:
            self._unconnected -= 1
            if self._unconnected < 0:
                return
            if not self._unconnected:
                self._started.set()
        self._last.append(line)
        own = _LEVEL.match(line)
        level = own.group(1) if own else "WARN" if name == "stderr" else "INFO"
        self._log.worker(self.pid or 0, line, level=level, model=self._settings.name, stream=name)
