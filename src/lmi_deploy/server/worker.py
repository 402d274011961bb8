"""One worker: a process of DJL's Python engine and the one connection to it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import re
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.server.log import Log
from lmi_deploy.server.properties import ModelSettings, worker_environment
from lmi_deploy.server.stream import Stream
from lmi_deploy.server.wire import Answer, Entry, Pair, WireError, WireReader, pack_request

STARTED = "Python engine started."
START_LIMIT = 120.0
GRACE = 3.0
KEPT_LINES = 40
FIRST_NUMBER = 19000
LONGEST_SOCKET_PATH = 103  # sockaddr_un holds 104 bytes on macOS, the terminating zero among them

_LEVEL = re.compile(r"^(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)::")


class WorkerLost(Exception):
    """The worker's process or connection is gone."""


class LoadFailure(Exception):
    """The worker did not come to serve; `last_lines` are its own last words."""

    def __init__(
        self, phase: str, message: str, *, worker_exit: int | None, last_lines: tuple[str, ...]
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.worker_exit = worker_exit
        self.last_lines = last_lines


@dataclass(frozen=True, slots=True)
class Engine:
    """Where workers come from, and where their sockets lie."""

    folder: Path
    python: Path
    run_dir: Path
    environ: Mapping[str, str]
    largest_blob: int
    numbers: itertools.count[int]


class Worker:
    """Start it, ask it one thing at a time, end it."""

    def __init__(self, engine: Engine, settings: ModelSettings, log: Log) -> None:
        self._engine = engine
        self._settings = settings
        self._log = log
        self._socket = engine.run_dir / f"djl_sock.{FIRST_NUMBER + next(engine.numbers)}"
        self._process: Process | None = None
        self._stream: Stream | None = None
        self._pumps: list[asyncio.Task[None]] = []
        self._last: deque[str] = deque(maxlen=KEPT_LINES)
        self._started = asyncio.Event()
        self.wire: WireReader | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    @property
    def last_lines(self) -> tuple[str, ...]:
        return tuple(self._last)

    async def start(self) -> None:
        """Process, handshake, connection and the handler's warm-up call; `LoadFailure` if one of them fails."""
        await self._spawn()
        await self._handshake()
        await self._connect()
        await self._initialise()

    async def send(self, properties: list[Pair], content: list[Entry], until: float = math.inf) -> None:
        """Write one request; `WorkerLost` when nobody reads it, TimeoutError when it is not read by `until`."""
        stream = self._stream
        if stream is None or stream.closing:
            raise WorkerLost("Backend Python process is stopped.")
        stream.write(pack_request(properties, content))
        if stream.full:
            try:
                async with asyncio.timeout_at(until if until < math.inf else None):
                    await stream.drain()
            except ConnectionError as exc:
                raise WorkerLost("Python worker disconnected.") from exc

    async def answer(self, until: float = math.inf) -> Answer:
        """The next answer; `WorkerLost` when there will be none, TimeoutError at `until` by the loop's clock."""
        try:
            return await self._line().answer(until)
        except (EOFError, WireError) as exc:
            raise WorkerLost("Python worker disconnected.") from exc

    async def frame(self) -> tuple[bool, bytes]:
        """The next frame of a stream."""
        try:
            return await self._line().frame()
        except (EOFError, WireError) as exc:
            raise WorkerLost("Python worker disconnected.") from exc

    async def stop(self) -> None:
        """End the process: close its connection, then SIGTERM, then SIGKILL; remove its files."""
        if self._stream is not None:
            self._stream.close()
        process = self._process
        if process is not None and process.returncode is None:
            await _end(process)
        # Grandchildren may hold the pipes open: what they still say is not waited for.
        await asyncio.wait(self._pumps, timeout=0.5) if self._pumps else None
        for pump in self._pumps:
            pump.cancel()
        for path in (self._socket, Path(f"{self._socket}.pid")):
            path.unlink(missing_ok=True)

    async def obituary(self) -> str:
        """How the process ended, once its connection did."""
        await self._quiet()
        return (
            f"the Python process ended with exit code {self.exit_code}"
            if self.exit_code is not None
            else "cut off"
        )

    def _line(self) -> WireReader:
        if self.wire is None:
            raise WorkerLost("Backend Python process is stopped.")
        return self.wire

    async def _spawn(self) -> None:
        if len(str(self._socket)) > LONGEST_SOCKET_PATH:
            raise self._failure(
                "start", f"{self._socket}: over {LONGEST_SOCKET_PATH} characters, too long for a socket"
            )
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv(),
                cwd=self._settings.folder,
                env=worker_environment(self._engine.environ, self._settings, self._engine.folder),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                # Ctrl-C in a terminal is for the server, which lets the worker finish its call.
                start_new_session=True,
            )
        except OSError as exc:
            raise self._failure("start", f"cannot run {self._engine.python}: {exc.strerror or exc}") from exc
        self._log.event("worker started", pid=self._process.pid, model=self._settings.name)
        for stream, level in ((self._process.stdout, "INFO"), (self._process.stderr, "WARN")):
            if stream is not None:
                self._pumps.append(asyncio.create_task(self._pump(stream, level)))

    def _argv(self) -> list[str]:
        settings = self._settings
        return [
            *(str(self._engine.python), str(self._engine.folder / "djl_python_engine.py")),
            *("--sock-type", "unix", "--sock-name", str(self._socket)),
            *("--model-dir", str(settings.folder), "--entry-point", settings.entry_point),
            *("--device-id", "-1", "--cluster-size", "1"),
            *("--recommended-entry-point", settings.recommended_entry_point, "--log-level", "info"),
            "--async-mode" if settings.async_mode else "--no-async-mode",
        ]

    async def _handshake(self) -> None:
        process = self._running()
        ready = asyncio.create_task(self._started.wait())
        gone = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({ready, gone}, timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            gone.cancel()
        if not self._started.is_set():
            await self._quiet()
            why = (
                "ended" if process.returncode is not None else f"did not report in within {START_LIMIT:.0f} s"
            )
            raise self._failure("start", f"the Python process {why} before it served: see its last lines")

    async def _connect(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            _, self._stream = await loop.create_unix_connection(Stream, str(self._socket))
        except OSError as exc:
            await self._quiet()
            raise self._failure(
                "start", f"the worker's socket {self._socket} does not answer: {exc}"
            ) from exc
        self.wire = WireReader(self._stream, largest=self._engine.largest_blob)

    async def _initialise(self) -> None:
        limit = self._settings.limits.model_loading_timeout
        try:
            await self.send(list(self._settings.initialise.items()), [])
            answer = await asyncio.wait_for(self.answer(), limit)
        except TimeoutError as exc:
            message = f"model_loading_timeout: the warm-up call took longer than {limit:.0f} s"
            raise self._failure("initialise", message) from exc
        except WorkerLost as exc:
            await self._quiet()
            message = f"the Python process ended with exit code {self.exit_code} during the warm-up call"
            raise self._failure("initialise", message) from exc
        if answer.code >= 300:
            await self._quiet()
            raise self._failure("initialise", f"Failed to initialize model: {_why(answer)}")

    def _running(self) -> Process:
        if self._process is None:
            raise WorkerLost("Backend Python process is stopped.")
        return self._process

    async def _quiet(self) -> None:
        """Let a dying worker finish its sentences: its last lines are what the user needs."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._running().wait(), 0.5)
        await asyncio.wait(self._pumps, timeout=0.2) if self._pumps else None

    def _failure(self, phase: str, message: str) -> LoadFailure:
        return LoadFailure(phase, message, worker_exit=self.exit_code, last_lines=self.last_lines)

    async def _pump(self, stream: asyncio.StreamReader, level: str) -> None:
        rest = b""
        while piece := await stream.read(1 << 16):
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > 1 << 16:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._heard(line.decode("utf-8", "replace").rstrip("\r"), level)
        if rest:
            self._heard(rest.decode("utf-8", "replace"), level)

    def _heard(self, line: str, level: str) -> None:
        if "ModelServerTelemetry:" in line:
            return
        if STARTED in line:
            if self._started.is_set():
                return
            self._started.set()
        self._last.append(line)
        own = _LEVEL.match(line)
        self._log.worker(self.pid or 0, own.group(1) if own else level, line)


def _why(answer: Answer) -> str:
    body = answer.body().decode("utf-8", "replace").strip()
    return f"{answer.code} {answer.message}" + (f": {body}" if body else "")


async def _end(process: Process) -> None:
    for ending in (process.terminate, process.kill):
        with contextlib.suppress(ProcessLookupError):
            ending()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
            return
