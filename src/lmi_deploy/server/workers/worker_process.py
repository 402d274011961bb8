"""A worker's process and all its child processes: when the worker exits, the rest are killed, too.

A handler may start child processes (vLLM's EngineCore holds gigabytes), which survive when the worker is killed or
crashes. They are found by their session, which the worker leads, and, if they started a session themselves, by a
variable in their environment.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import uuid
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lmi_deploy.server.workers.orphan_processes import MARK, Leader, end_leftovers, leader_of

GRACE = 3.0
_READ_AHEAD = 1 << 16


class WorkerProcess:
    """Started by `WorkerProcesses`; its pipes are `stdout` and `stderr`."""

    def __init__(self, process: Process, exited: asyncio.Event, cleaned: asyncio.Task[None]) -> None:
        self.stdout, self.stderr = process.stdout, process.stderr
        self._process = process
        self._exited = exited
        self._cleaned = cleaned

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> None:
        """Wait until the process has exited, even if other processes hold its pipes: asyncio's own `wait` waits for
        those, too.
        """
        await self._exited.wait()

    async def end(self) -> None:
        """SIGTERM, SIGKILL; then until nothing that it started is left."""
        for suffix in (self._process.terminate, self._process.kill):
            if self._exited.is_set():
                break
            with suppress(ProcessLookupError):
                suffix()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), GRACE)
        await asyncio.wait({self._cleaned})


class WorkerProcesses:
    """Starts the workers of one server. If the server is killed, a watchdog kills the processes that its workers
    leave behind.
    """

    def __init__(self) -> None:
        self._mark = str(uuid.uuid4())
        self._numbers = itertools.count(1)
        self._watchdog: subprocess.Popen[bytes] | None = None

    async def start(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> WorkerProcess:
        """OSError if it cannot be run."""
        mark = f"{self._mark}/{next(self._numbers)}"
        exited = asyncio.Event()
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(exited, loop),
            *argv,
            cwd=cwd,
            env={**environment, MARK: mark},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            # Ctrl-C in a terminal is for the server, which lets the worker finish its call.
            start_new_session=True,
        )
        leader = leader_of(transport.get_pid())
        self._tell(f"+{leader}\n")
        cleaned = asyncio.create_task(self._clean(exited, mark, leader))
        return WorkerProcess(Process(transport, protocol, loop), exited, cleaned)

    def close(self) -> None:
        """The watchdog is not needed any more, once all workers have ended."""
        if self._watchdog is not None and self._watchdog.stdin is not None:
            with suppress(OSError):
                self._watchdog.stdin.close()
            self._watchdog.wait()

    async def _clean(self, exited: asyncio.Event, mark: str, leader: Leader) -> None:
        """Runs however the worker exits, even if it never gets another request."""
        await exited.wait()
        await asyncio.to_thread(end_leftovers, mark, [leader])
        self._tell(f"-{leader}\n")

    def _tell(self, line: str) -> None:
        if self._watchdog is None:
            self._watchdog = subprocess.Popen(
                [sys.executable, "-m", "lmi_deploy.server.workers.orphan_processes", self._mark],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # A signal to our process group, from a terminal or to kill it, must not reach it.
                start_new_session=True,
            )
        assert self._watchdog.stdin is not None
        with suppress(OSError):  # already stopped: the workers are still stopped here
            self._watchdog.stdin.write(line.encode())
            self._watchdog.stdin.flush()


class _Protocol(SubprocessStreamProtocol):
    """Reports the exit of the process itself."""

    def __init__(self, exited: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_READ_AHEAD, loop=loop)
        self._ended = exited

    def process_exited(self) -> None:
        super().process_exited()
        self._ended.set()
