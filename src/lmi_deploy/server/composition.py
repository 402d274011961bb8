"""Create the parts of a server from its command line and settings, and connect them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.server.control_commands import ControlCommands, ServerState
from lmi_deploy.server.control_socket import SOCKET_NAME, ControlSocket
from lmi_deploy.server.http.access_control import Access
from lmi_deploy.server.http.listener import Listener
from lmi_deploy.server.http.routes import FrontEnd
from lmi_deploy.server.inference_api import InferenceApi
from lmi_deploy.server.log import Log
from lmi_deploy.server.management_api import ManagementApi
from lmi_deploy.server.models.archives import ModelArchives
from lmi_deploy.server.models.model_registry import Models
from lmi_deploy.server.models.serving_properties import ServerDefaults, ServingProperties
from lmi_deploy.server.prometheus_metrics import PrometheusMetrics
from lmi_deploy.server.server_settings import ServerSettings
from lmi_deploy.server.workers.async_worker import AsyncWorkerSession
from lmi_deploy.server.workers.devices import DevicePlacement, detect_gpus
from lmi_deploy.server.workers.sync_worker import SyncWorkerSession
from lmi_deploy.server.workers.worker import Worker
from lmi_deploy.server.workers.worker_command import Engine
from lmi_deploy.server.workers.worker_group import WorkerSession
from lmi_deploy.server.workers.worker_process import WorkerProcesses

ARCHIVES = "archives"


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
    foreground: bool = False  # exit when the parent process is gone
    managed_by_clients: bool = True  # over HTTP, as DJLServing; else only over the control socket


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a running server. `second`: the separate management port, if there is one."""

    metrics: PrometheusMetrics
    models: Models
    inference: InferenceApi
    listener: Listener
    second: Listener | None
    control: ControlSocket


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """`end` asks the program to stop; `panic` stops it immediately."""

    options: Options
    environ: Mapping[str, str]
    log: Log
    state: ServerState
    processes: WorkerProcesses
    end: Callable[[], None]
    panic: Callable[[], None]

    def parts(self, settings: ServerSettings) -> Parts:
        """All of them, nothing started."""
        log = self.log
        metrics = PrometheusMetrics(kept=settings.metrics)
        models = self._models(settings, metrics)
        inference = InferenceApi(models, settings, log, metrics=metrics)
        management = ManagementApi(models, log, metrics)
        front = self._front(inference, management, settings)
        second = None
        if not self.options.managed_by_clients:
            application = front.inference_and_metrics
        elif settings.management_host is None:
            application = front.both
        else:
            application = front.inference_only
            second = Listener(settings, front.management_only, log)
        listener = Listener(settings, application, log)
        commands = ControlCommands(
            state=self.state,
            model=self.options.model_name,
            labels=self.options.labels,
            models=models,
            counts=inference.counts,
            listener=listener,
            management=management,
            end=self.end,
            log=log,
        )
        return Parts(
            metrics=metrics,
            models=models,
            inference=inference,
            listener=listener,
            second=second,
            control=ControlSocket(self.options.run_dir / SOCKET_NAME, commands.verbs(), commands.give_socket),
        )

    def _front(
        self, inference: InferenceApi, management: ManagementApi, settings: ServerSettings
    ) -> FrontEnd:
        host = self.options.host
        origins = settings.keys.get("cors_allowed_origin", "")
        return FrontEnd(
            inference=inference,
            management=management,
            models=inference.models,
            settings=settings,
            access=Access(host, origins),
            second=Access(settings.management_host or host, origins),
            panic=self.panic,
            log=self.log,
        )

    def _models(self, settings: ServerSettings, metrics: PrometheusMetrics) -> Models:
        options, environ, log = self.options, self.environ, self.log
        engine = Engine(
            folder=options.engine_dir,
            python=options.python,
            run_dir=options.run_dir,
            environ=environ,
            largest_blob=settings.largest_blob,
            numbers=itertools.count(),
            tcp=settings.tcp_workers,
            log_level=settings.log_level,
        )
        around = ServerDefaults(defaults=settings.keys, environ=environ, gpus=detect_gpus(environ))

        def new_session(model: ServingProperties, place: DevicePlacement) -> WorkerSession:
            worker = Worker(engine, model, place, log, processes=self.processes)
            return (
                AsyncWorkerSession(worker, log) if model.async_mode else SyncWorkerSession(worker, model, log)
            )

        archives = ModelArchives(options.run_dir / ARCHIVES)
        return Models(new_session=new_session, defaults=around, archives=archives, log=log, metrics=metrics)
