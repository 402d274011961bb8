"""The models of this server, by name; including which one was loaded at the start."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from pathlib import Path

from lmi_deploy.server import error_responses, sagemaker_differences
from lmi_deploy.server.log import Log
from lmi_deploy.server.models.archives import ModelArchives
from lmi_deploy.server.models.registration_request import Overrides
from lmi_deploy.server.models.serving_properties import ServerDefaults, resolve
from lmi_deploy.server.prometheus_metrics import PrometheusMetrics
from lmi_deploy.server.workers.pool import NewSession, Pool
from lmi_deploy.server.workers.pool_log import PoolLog
from lmi_deploy.server.workers.worker_group import WorkerGroup, WorkerGroupStatus


class Models:
    """Registered models; a name is taken once."""

    def __init__(
        self,
        *,
        new_session: NewSession,
        defaults: ServerDefaults,
        archives: ModelArchives,
        log: Log,
        metrics: PrometheusMetrics,
    ) -> None:
        self.archives = archives
        self.startup: list[str] = []
        self._pools: dict[tuple[str, str | None], Pool] = {}
        self._turns: dict[str, int] = {}
        self._new_session = new_session
        self._surroundings = defaults
        self._log = log
        self._metrics = metrics
        self._numbers = itertools.count(1)
        self._model_numbers = itertools.count(1)

    def __iter__(self) -> itertools.chain[Pool]:
        return itertools.chain(self._pools.values())

    def versions(self, name: str, version: str | None = None) -> list[Pool]:
        """All versions, or the requested one; `ErrorReply` 404 if there is none."""
        found = [pool for pool in self if pool.settings.name == name]
        found = [pool for pool in found if not version or pool.settings.version == version]
        if not found:
            raise error_responses.unknown_model(name)
        return found

    def next_of(self, name: str, version: str | None = None) -> Pool:
        """The versions in rotation unless one is requested, as `Endpoint.next` of the real server."""
        found = self.versions(name, version)
        if len(found) == 1:
            return found[0]
        turn = self._turns.get(name, 0) % len(found)
        self._turns[name] = turn + 1
        return found[turn]

    def has(self, name: str, version: str | None) -> bool:
        """Whether this version of it is registered; without a version, whether any is."""
        return any(name == one and version in (None, other) for one, other in self._pools)

    def startup_name(self) -> str | None:
        """The name of the only model of the start; None if there is not exactly one."""
        return self.startup[0] if len(set(self.startup)) == 1 else None

    def add(self, folder: Path, name: str, *, overrides: Overrides, startup: bool = False) -> Pool:
        """A pool for the model in `folder`, its workers not yet started."""
        clock = asyncio.get_running_loop().time
        started = clock()
        self._log.djl("ModelStore", f"Initializing model: {name}=file:{folder}/")
        around = dataclasses.replace(self._surroundings, over=overrides.keys)
        settings = resolve(folder, name=name, around=around)
        settings = dataclasses.replace(settings, version=overrides.version, url=overrides.url)
        if settings.entry_point and settings.initialise.get("rolling_batch", "disable") != "disable":
            self._log.warn(sagemaker_differences.ROLLING, model=name)
        if not self._surroundings.gpus and any(place.device.kind == "gpu" for place in settings.places):
            self._log.warn(sagemaker_differences.NO_GPU, model=name)
        if settings.one_engine and all(place.device.kind == "cpu" for place in settings.places):
            self._log.event(sagemaker_differences.ONE_ENGINE, model=name)
        pool = Pool(
            settings,
            self._new_session,
            log=PoolLog(self._log, name, next(self._model_numbers)),
            numbers=self._numbers,
            metrics=self._metrics,
        )
        pool.read_in = clock() - started
        self._pools[name, overrides.version] = pool
        if startup:
            self.startup.append(name)
        return pool

    async def remove(self, pool: Pool) -> None:
        name, version = pool.settings.name, pool.settings.version
        del self._pools[name, version]
        if not any(pool.settings.name == name for pool in self):
            self.startup = [one for one in self.startup if one != name]
        await pool.stop()
        await asyncio.to_thread(self.archives.remove, pool.settings.folder)

    async def stop(self) -> None:
        for pool in self:
            await pool.stop()
        await asyncio.to_thread(self.archives.clear)


def listed(pool: Pool) -> dict[str, object]:
    """A model as GET /models shows it."""
    version = {"version": pool.settings.version} if pool.settings.version else {}
    # A list shows a model as ready while its workers are still starting.
    status = "READY" if pool.has_started and not pool.failed else str(pool.status)
    return {"modelName": pool.settings.name, **version, "modelUrl": _url(pool), "status": status}


def described(pool: Pool, *, startup: bool) -> dict[str, object]:
    """A model as GET /models/NAME shows it."""
    limits = pool.settings.limits
    model: dict[str, object] = {
        "modelName": pool.settings.name,
        "modelUrl": _url(pool),
        "batchSize": limits.batch_size,
        "maxBatchDelayMillis": round(limits.max_batch_delay * 1000),
        "maxIdleSeconds": round(limits.max_idle_time),
        "queueSize": limits.job_queue_size,
        "requestInQueue": len(pool.queue),
        "status": health(pool),
        "loadedAtStartup": startup,
        "workerGroups": [_group(group) for group in pool.groups],
    }
    version = {"version": pool.settings.version} if pool.settings.version else {}
    return {"workflowName": pool.settings.name, **version, "models": [model]}


def health(pool: Pool) -> str:
    """The word that /ping and a description use."""
    if pool.status is WorkerGroupStatus.READY:
        return "Healthy"
    return "Unhealthy" if pool.has_started and not pool.failed else str(pool.status)


def _url(pool: Pool) -> str:
    return pool.settings.url or f"file:{pool.settings.folder}/"


def _group(group: WorkerGroup) -> dict[str, object]:
    device = group.place.device
    workers = [
        {
            "id": slot.number,
            "startTime": slot.started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "status": "READY" if slot.alive else "UNLOADING",
        }
        for slot in group.slots
    ]
    return {
        "device": {"deviceType": device.kind, "deviceId": device.number},
        "minWorkers": group.low,
        "maxWorkers": group.high,
        "workers": workers,
    }
