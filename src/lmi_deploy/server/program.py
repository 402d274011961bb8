"""The life of the server: load, listen, hand over, drain, end."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import json
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.server.control import SOCKET_NAME, Borrowed, Control, ControlError, Said
from lmi_deploy.server.frontend import FrontEnd
from lmi_deploy.server.listener import LINGER, Listener
from lmi_deploy.server.log import Log
from lmi_deploy.server.models import Models
from lmi_deploy.server.pool import Status
from lmi_deploy.server.properties import BadSettings, ModelSettings
from lmi_deploy.server.report import workers_of
from lmi_deploy.server.settings import ServerSettings, read_settings
from lmi_deploy.server.shift import Shift, SyncShift
from lmi_deploy.server.worker import Engine, LoadFailure, Worker

FAILURE_FILE = "failure.json"
ENDED_AT_ONCE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line, read."""

    model_dir: Path
    engine_dir: Path
    python: Path
    run_dir: Path
    host: str
    port: int
    model_name: str
    config: Path | None
    labels: Mapping[str, str]
    drain_seconds: float


class Program:
    """One server process."""

    def __init__(self, options: Options, environ: Mapping[str, str], log: Log) -> None:
        self._options = options
        self._environ = environ
        self._log = log
        self._phase = "loading"
        self._message = ""
        self._started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._ending = asyncio.Event()
        self._at_once = asyncio.Event()
        self._signals: list[int] = []

    async def run(self) -> int:
        """The exit code: 0 after a drain, 1 when the server did not come to serve."""
        self._options.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._options.run_dir / FAILURE_FILE).unlink(missing_ok=True)
        try:
            self._build(read_settings(self._options.config, self._environ))
            await self._control.open()
        except (BadSettings, OSError, ValueError) as exc:
            return self._failed(LoadFailure("settings", str(exc), worker_exit=None, last_lines=()))
        self._listen_to_signals()
        try:
            return await self._serve()
        finally:
            self._control.close()

    def _build(self, settings: ServerSettings) -> None:
        options = self._options
        self._engine = Engine(
            folder=options.engine_dir,
            python=options.python,
            run_dir=options.run_dir,
            environ=self._environ,
            largest_blob=settings.largest_blob,
            numbers=itertools.count(),
        )
        self._models = Models(
            new_shift=self._new_shift, defaults=settings.keys, environ=self._environ, log=self._log
        )  # fmt: skip
        self._front = FrontEnd(self._models, settings, self._log)
        self._listener = Listener(settings, self._front)
        verbs = {"status": self._status, "take_over": self._take_over, "stop": self._stop}
        self._control = Control(options.run_dir / SOCKET_NAME, verbs, self._give_socket)
        self._settings = settings

    def _new_shift(self, settings: ModelSettings) -> Shift:
        return SyncShift(Worker(self._engine, settings, self._log), settings, self._log)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: int) -> None:
        (self._at_once if self._ending.is_set() else self._ending).set()
        self._signals.append(number)
        self._log.event("signal", name=signal.Signals(number).name)

    async def _serve(self) -> int:
        try:
            self._listener.reserve(self._options.host, self._options.port)
            await self._load()
        except OSError as exc:
            where = f"{self._options.host}:{self._options.port}"
            return self._failed(
                LoadFailure("listen", f"{where}: {exc.strerror or exc}", worker_exit=None, last_lines=())
            )
        except LoadFailure as exc:
            self._listener.close()
            await self._models.stop()
            return self._failed(exc)
        if self._ending.is_set():
            await self._models.stop()
            self._listener.close()
            return 0
        await self._open()
        return await self._until_ended()

    async def _load(self) -> None:
        """Load the model; returns early when the server is told to end meanwhile."""
        options = self._options
        try:
            pool = self._models.add(options.model_dir, options.model_name, startup=True)
        except BadSettings as exc:
            raise LoadFailure("settings", str(exc), worker_exit=None, last_lines=()) from exc
        loading = asyncio.create_task(pool.load())
        ended = asyncio.create_task(self._ending.wait())
        await asyncio.wait({loading, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if loading.done():
            loading.result()
            return
        loading.cancel()
        with contextlib.suppress(asyncio.CancelledError, LoadFailure):
            await loading

    async def _open(self) -> None:
        await self._listener.open()
        self._phase = "ready"
        self._log.event(
            "ready",
            model=self._options.model_name,
            address=f"http://{self._options.host}:{self._listener.port}",
        )

    async def _until_ended(self) -> int:
        handed = asyncio.create_task(self._control.handed_over.wait())
        ended = asyncio.create_task(self._ending.wait())
        await asyncio.wait({handed, ended}, return_when=asyncio.FIRST_COMPLETED)
        for task in (handed, ended):
            task.cancel()
        await self._drain(LINGER if self._control.handed_over.is_set() else 0.0)
        await self._models.stop()
        self._log.event("ended", served=self._front.counts.served, failed=self._front.counts.failed)
        return ENDED_AT_ONCE + self._signals[-1] if self._at_once.is_set() else 0

    async def _drain(self, linger: float) -> None:
        self._phase = "draining"
        self._ending.set()
        self._listener.close()
        self._log.event(
            "draining", in_flight=self._front.counts.in_flight, at_most_s=self._options.drain_seconds
        )
        drained = asyncio.create_task(self._listener.drain(linger=linger))
        hurried = asyncio.create_task(self._at_once.wait())
        limit = self._options.drain_seconds
        await asyncio.wait({drained, hurried}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            self._log.warn("requests were cut off", in_flight=self._front.counts.in_flight)
            self._listener.abort()
        for task in (drained, hurried):
            task.cancel()

    async def _status(self, _: Said) -> Said:
        counts = self._front.counts
        failed = next((pool for pool in self._models if pool.status is Status.FAILED), None)
        return {
            "phase": "failed" if failed and self._phase == "ready" else self._phase,
            "pid": os.getpid(),
            "port": self._listener.port,
            "model": self._options.model_name,
            "labels": dict(self._options.labels),
            "requests": {"served": counts.served, "failed": counts.failed, "in_flight": counts.in_flight},
            "workers": workers_of(self._models),
            "started_at": self._started_at,
            "message": failed.why_failed if failed else self._message,
        }

    async def _stop(self, _: Said) -> Said:
        self._ending.set()
        return {"phase": "draining"}

    async def _take_over(self, asked: Said) -> Said:
        if self._phase != "ready":
            raise ControlError(f"this server is {self._phase}: only a ready one can take over")
        borrowed = Borrowed(str(asked.get("from")))
        try:
            listening = await asyncio.to_thread(borrowed.fetch)
            await self._listener.replace(listening)
            borrowed.thank()
        finally:
            borrowed.close()
        self._log.event("took over", port=self._listener.port, of=asked.get("from"))
        return {"port": self._listener.port}

    def _give_socket(self) -> socket.socket:
        listening = self._listener.listening
        if self._phase != "ready" or listening is None:
            raise ControlError(f"this server is {self._phase}: it has no socket to hand over")
        return listening

    def _failed(self, failure: LoadFailure) -> int:
        told = {
            "phase": failure.phase,
            "message": str(failure),
            "worker_exit": failure.worker_exit,
            "last_lines": list(failure.last_lines),
        }
        self._phase, self._message = "failed", str(failure)
        (self._options.run_dir / FAILURE_FILE).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        self._log.error(
            "the server did not come to serve",
            phase=failure.phase,
            worker_exit=failure.worker_exit,
            why=failure,
        )
        return 1
