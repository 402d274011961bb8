"""The models of this server, by name; which of them was there at the start."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from lmi_deploy.server import refusals
from lmi_deploy.server.log import Log
from lmi_deploy.server.metrics import Metrics
from lmi_deploy.server.pool import Pool, Slot, Status
from lmi_deploy.server.properties import ModelSettings, resolve
from lmi_deploy.server.shift import Shift


class Models:
    """Registered models; a name is taken once."""

    def __init__(
        self,
        *,
        new_shift: Callable[[ModelSettings], Shift],
        defaults: Mapping[str, str],
        environ: Mapping[str, str],
        log: Log,
        metrics: Metrics,
    ) -> None:
        self.startup: list[str] = []
        self._pools: dict[str, Pool] = {}
        self._new_shift = new_shift
        self._defaults = defaults
        self._environ = environ
        self._log = log
        self._metrics = metrics
        self._numbers = itertools.count(1)

    def __iter__(self) -> itertools.chain[Pool]:
        return itertools.chain(self._pools.values())

    def named(self, name: str, version: str | None = None) -> Pool:
        """`Refusal` 404 for a model that is not here."""
        pool = self._pools.get(name)
        if pool is None or (version and version != pool.settings.version):
            raise refusals.unknown_model(name)
        return pool

    def only_startup(self) -> Pool:
        """The one model that /invocations means without a name; `Refusal` when there is not exactly one."""
        if len(self.startup) != 1 or self.startup[0] not in self._pools:
            raise refusals.bad_request("Parameter model_name is required.")
        return self._pools[self.startup[0]]

    def add(self, folder: Path, name: str, *, version: str | None = None, startup: bool = False) -> Pool:
        """A pool for the model in `folder`, its workers not yet started."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        settings = resolve(folder, name=name, version=version, defaults=self._defaults, environ=self._environ)
        pool = Pool(settings, self._new_shift, log=self._log, numbers=self._numbers, metrics=self._metrics)
        pool.read_in = clock() - begun
        self._pools[name] = pool
        if startup:
            self.startup.append(name)
        return pool

    async def remove(self, name: str) -> None:
        pool = self._pools.pop(name)
        self.startup = [one for one in self.startup if one != name]
        await pool.stop()

    async def stop(self) -> None:
        for pool in self:
            await pool.stop()


def listed(pool: Pool) -> dict[str, object]:
    """A model as GET /models shows it."""
    shown: dict[str, object] = {"modelName": pool.settings.name}
    if pool.settings.version:
        shown["version"] = pool.settings.version
    return shown | {"modelUrl": _url(pool), "status": _word(pool)}


def described(pool: Pool, *, startup: bool) -> dict[str, object]:
    """A model as GET /models/NAME shows it."""
    limits = pool.settings.limits
    group = {
        "device": {"deviceType": "cpu", "deviceId": -1},
        "minWorkers": pool.low,
        "maxWorkers": pool.high,
        "workers": [_worker(slot) for slot in pool.slots],
    }
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
        "workerGroups": [group],
    }
    return {"workflowName": pool.settings.name, "models": [model]}


def health(pool: Pool) -> str:
    """The word that /ping and a description use."""
    if pool.status is Status.READY:
        return "Healthy"
    return "Unhealthy" if pool.begun and not pool.failed else str(pool.status)


def _word(pool: Pool) -> str:
    # A model whose workers are being started counts as ready in a list already.
    return "READY" if pool.begun and not pool.failed else str(pool.status)


def _url(pool: Pool) -> str:
    return f"file:{pool.settings.folder}/"


def _worker(slot: Slot) -> dict[str, object]:
    started = slot.started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"id": slot.number, "startTime": started, "status": "READY" if slot.alive else "UNLOADING"}
