"""The life of the server: load, listen, drain, end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from lmi_deploy.server.composition import Composition, Options
from lmi_deploy.server.control_commands import ServerState
from lmi_deploy.server.control_socket import WATCH_SECONDS
from lmi_deploy.server.http.listener import LINGER
from lmi_deploy.server.log import Log
from lmi_deploy.server.models.model_store import startup_models
from lmi_deploy.server.models.property_values import InvalidSettings
from lmi_deploy.server.server_settings import ServerSettings, read_settings
from lmi_deploy.server.workers.worker import LoadFailure
from lmi_deploy.server.workers.worker_process import WorkerProcesses

FAILURE_FILE = "failure.json"
ENDED_BY_SIGNAL = 128
PANIC = 137  # the exit code with SERVING_FAIL_FAST
FAILED_HEALTH_SECONDS = 3.0  # /ping still reports a failed load that long, if the port was bound before it


class Program:
    """One server process."""

    def __init__(self, options: Options, environ: Mapping[str, str], log: Log) -> None:
        self._options = options
        self._environ = environ
        self._log = log
        self._state = ServerState()
        self._processes = WorkerProcesses()
        self._stop_requested = asyncio.Event()
        self._at_once = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """The exit code: 0 after a requested stop, 128 and its number after a signal, 1 when the server did not
        start.
        """
        self._started = asyncio.get_running_loop().time()
        # The parent process creates it, and this process must not: if the folder is gone, no process waits for this
        # server.
        if not self._options.run_dir.is_dir():
            self._log.error(
                f"{self._options.run_dir}: the folder of the sockets was deleted; without it this server could not be "
                "stopped later, so it ends"
            )
            return 1
        (self._options.run_dir / FAILURE_FILE).unlink(missing_ok=True)
        try:
            self._build(read_settings(self._options.config, self._environ))
            await self._control.open()
        except (InvalidSettings, OSError, ValueError) as exc:
            return self._failed(_failure("settings", exc))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._signalled, number)
        watches = [asyncio.create_task(self._end_when_lost())]
        if self._options.foreground:
            watches.append(asyncio.create_task(self._end_when_orphaned()))
        try:
            return await self._serve()
        finally:
            for watch in watches:
                watch.cancel()
            self._control.close()
            self._processes.close()

    def _build(self, settings: ServerSettings) -> None:
        self._settings = settings
        composition = Composition(
            options=self._options,
            environ=self._environ,
            log=self._log,
            state=self._state,
            processes=self._processes,
            end=self._stop_requested.set,
            panic=self._panicked,
        )
        parts = composition.parts(settings)
        self._metrics, self._models, self._inference = parts.metrics, parts.models, parts.inference
        self._listener, self._second, self._control = parts.listener, parts.second, parts.control

    def _signalled(self, number: int) -> None:
        self._log.event("signal", name=signal.Signals(number).name)
        self._exit_code = ENDED_BY_SIGNAL + number
        if self._stop_requested.is_set():
            self._at_once.set()
        self._stop_requested.set()

    async def _end_when_lost(self) -> None:
        await self._control.lost()
        self._log.error("the control socket was deleted or belongs to another server: this server ends")
        self._stop_requested.set()

    async def _end_when_orphaned(self) -> None:
        parent = os.getppid()
        while os.getppid() == parent:
            await asyncio.sleep(WATCH_SECONDS)
        self._log.error("the process that started this server was killed: the server ends")
        self._stop_requested.set()
        self._at_once.set()

    def _panicked(self) -> None:
        self._log.error("SERVING_FAIL_FAST: a model failed, so the server ends")
        self._exit_code = PANIC
        self._stop_requested.set()
        self._at_once.set()

    async def _serve(self) -> int:
        try:
            await self._reserve()
            if self._settings.wait_model_loading:
                await self._load()
                if not self._stop_requested.is_set():
                    await self._listen()
                    self._state.phase = "ready"
                    address = f"http://{self._options.host}:{self._listener.port}"
                    self._log.event("ready", model=self._options.model_name, address=address)
            else:
                await self._listen()
                await self._load()
                self._state.phase = "ready"
        except LoadFailure as exc:
            code = self._failed(exc)
            if not self._settings.wait_model_loading:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop_requested.wait(), FAILED_HEALTH_SECONDS)
                code = 0  # as the real server: /ping reported the failure
            self._close_listeners()
            await self._models.stop()
            return code
        return await self._until_ended()

    async def _reserve(self) -> None:
        try:
            self._listener.reserve(self._options.host, self._options.port)
            if self._second is not None:
                address = urlsplit(self._settings.keys["management_address"])
                self._second.reserve(address.hostname or self._options.host, address.port or 0)
        except OSError as exc:
            raise self._not_listening(exc) from exc

    async def _listen(self) -> None:
        try:
            await self._listener.open()
            if self._second is not None:
                await self._second.open()
        except OSError as exc:
            raise self._not_listening(exc) from exc
        self._metrics.started(asyncio.get_running_loop().time() - self._started)
        kind = "BOTH" if self._second is None else "INFERENCE"
        self._bound(kind, self._options.host, self._listener.port)
        if self._second is not None:
            host = self._settings.management_host or self._options.host
            self._bound("MANAGEMENT", host, self._second.port)

    def _bound(self, kind: str, host: str, port: int) -> None:
        self._log.djl("ModelServer", f"Initialize {kind} server with: EpollServerSocketChannel.")
        self._log.djl("ModelServer", f"{kind} API bind to: http://{host}:{port}")

    def _not_listening(self, exc: OSError) -> LoadFailure:
        where = f"{self._options.host}:{self._options.port}"
        return _failure("listen", f"{where}: {exc.strerror or exc}")

    async def _load(self) -> None:
        """Load every model; return early when the server must stop."""
        try:
            found = startup_models(self._options.model_dir, self._options.model_name, self._settings.keys)
            for one in found:
                self._log.djl("ModelStore", f"Found model {one.name}=file:{one.folder}/")
            pools = [
                self._models.add(one.folder, one.name, overrides=one.overrides, startup=True) for one in found
            ]
        except (InvalidSettings, OSError) as exc:
            raise _failure("settings", exc) from exc
        if not pools:
            self._log.warn(
                "no model found: the server reports Healthy but serves nothing",
                folder=self._options.model_dir,
            )
        loading: asyncio.Future[Any] = asyncio.gather(*(pool.load() for pool in pools))
        ended = asyncio.create_task(self._stop_requested.wait())
        await asyncio.wait({loading, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not loading.done():
            loading.cancel()
            with contextlib.suppress(asyncio.CancelledError, LoadFailure):
                await loading
            return
        loading.result()

    def _close_listeners(self) -> None:
        self._listener.close()
        if self._second is not None:
            self._second.close()

    async def _until_ended(self) -> int:
        handed = asyncio.create_task(self._control.handed_over.wait())
        ended = asyncio.create_task(self._stop_requested.wait())
        await asyncio.wait({handed, ended}, return_when=asyncio.FIRST_COMPLETED)
        for task in (handed, ended):
            task.cancel()
        await self._drain(LINGER if self._control.handed_over.is_set() else 0.0)
        await self._models.stop()
        counts = self._inference.counts
        self._log.event("ended", served=counts.served, failed=counts.failed)
        return self._exit_code

    async def _drain(self, linger: float) -> None:
        self._state.phase = "draining"
        self._log.djl("ModelServer", "Stopping model server.")
        self._stop_requested.set()
        self._close_listeners()
        limit = self._options.drain_seconds
        self._log.event("draining", in_flight=self._inference.counts.in_flight, at_most_s=limit)
        drained = asyncio.create_task(self._listener.drain(linger=linger))
        hurried = asyncio.create_task(self._at_once.wait())
        await asyncio.wait({drained, hurried}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            self._log.warn("requests were cut off", in_flight=self._inference.counts.in_flight)
            self._listener.abort()
        for task in (drained, hurried):
            task.cancel()

    def _failed(self, failure: LoadFailure) -> int:
        response = {
            "phase": failure.phase,
            "message": str(failure),
            "worker_exit": failure.worker_exit,
            "last_lines": list(failure.last_lines),
        }
        self._state.phase, self._state.message = "failed", str(failure)
        (self._options.run_dir / FAILURE_FILE).write_text(
            json.dumps(response, indent=2) + "\n", encoding="utf-8"
        )
        cause = f"ai.djl.engine.EngineException: {failure.text}"
        self._log.djl(
            "ModelServer",
            "Failed register workflow",
            level="ERROR",
            causes=(f"java.util.concurrent.CompletionException: {cause}", f"Caused by: {cause}"),
        )
        self._log.error(
            "the server failed to start", phase=failure.phase, worker_exit=failure.worker_exit, why=failure
        )  # fmt: skip
        return 1


def _failure(phase: str, why: object) -> LoadFailure:
    return LoadFailure(phase, str(why), worker_exit=None, last_lines=())
