"""All parts of a running emulator: constructed, connected, resumed and stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lmi_deploy.emulator.app import EmulatorApp
from lmi_deploy.emulator.clock import VirtualClock
from lmi_deploy.emulator.consistency_lag import Lag
from lmi_deploy.emulator.context import ACCOUNT, EmulatorContext
from lmi_deploy.emulator.faults.rule_validation import FaultSupport
from lmi_deploy.emulator.faults.rules import FaultRule, FaultRules
from lmi_deploy.emulator.hosting.component_states import Components
from lmi_deploy.emulator.hosting.endpoint_states import POLL_INTERVAL, EndpointController
from lmi_deploy.emulator.hosting.instances import ContainerRuntime, Instances
from lmi_deploy.emulator.hosting.network_access import ContainerKeys
from lmi_deploy.emulator.hosting.traffic_shifting import Fleets
from lmi_deploy.emulator.iam.authentication import Authentication
from lmi_deploy.emulator.iam.authorizer import Authorizer
from lmi_deploy.emulator.iam.keyring import KeyPair, Keyring, own_keys
from lmi_deploy.emulator.iam.roles import MotoRoles
from lmi_deploy.emulator.jobs.job_hosts import Hosts
from lmi_deploy.emulator.jobs.job_states import JobController
from lmi_deploy.emulator.jobs.optimization_states import OPTIMIZATION_LOGS, Optimizations
from lmi_deploy.emulator.logs.groups import LogGroups
from lmi_deploy.emulator.record_store import Store, write_atomically
from lmi_deploy.emulator.runtime.async_invocation import Queue
from lmi_deploy.emulator.runtime.container_routing import Routes
from lmi_deploy.emulator.runtime.data_capture import CaptureWriter
from lmi_deploy.emulator.runtime.invocation import RuntimeApi
from lmi_deploy.emulator.scaling.autoscaling_loop import AutoscalingLoop
from lmi_deploy.emulator.services.image_registry import DockerRegistryApi
from lmi_deploy.emulator.services.metrics import CloudWatchMetrics
from lmi_deploy.emulator.services.moto import Moto
from lmi_deploy.emulator.services.resource_groups_tagging import TagIndex
from lmi_deploy.emulator.services.s3_objects import ExternalObjects, MotoObjects, ObjectSource
from lmi_deploy.emulator.services.schedules import ScheduleLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int = 4566
    folder: Path | None = None
    speed: float = 60.0
    s3: str = ""
    proxy: bool = False
    registry: str = ""
    rules: tuple[FaultRule, ...] = ()
    enforce_iam: bool = False
    lag: Lag = field(default_factory=Lag)
    as_json: bool = False
    stop_after: float | None = None
    parent: int | None = None
    key: KeyPair | None = None
    """The key with which requests must be signed; None: create one."""


class Emulator:
    def __init__(
        self, settings: Settings, runtime: ContainerRuntime, environ: Mapping[str, str], work: Path
    ) -> None:
        """`work` is where containers run."""
        folder = settings.folder
        self._skew = folder / "clock.json" if folder else None
        self.keys = own_keys(settings.key, folder, environ if settings.s3 else None)
        self.context = context = self._context(settings, environ)
        instances = Instances(context, runtime, work / "hosting")
        fleets = Fleets(instances)
        context.hosting = EndpointController(context, fleets)
        context.components = Components(context, instances)
        of_optimizations = Hosts(context, runtime, work / "optimizations", log_group=OPTIMIZATION_LOGS)
        context.optimizations = Optimizations(context, of_optimizations)
        context.jobs = JobController(context, Hosts(context, runtime, work / "jobs"))
        self._schedules = ScheduleLoop(context)
        self._runtime = RuntimeApi(context, Routes(context, fleets), CaptureWriter(context))
        self._queue = Queue(self._runtime)
        self._autoscaling = AutoscalingLoop(context, self._runtime.measure_load, self._queue.measure)
        self._moto = Moto(ACCOUNT, folder / "moto" if folder else None)
        guard = Authorizer(ACCOUNT) if settings.enforce_iam else None
        self.app = EmulatorApp(
            context,
            self._runtime,
            self._queue,
            self._moto,
            guard,
            Authentication(Keyring(ACCOUNT, self.keys)),
            self.sync_clock,
            DockerRegistryApi(context, guard, settings.registry),
        )

    def _context(self, settings: Settings, environ: Mapping[str, str]) -> EmulatorContext:
        folder, lag = settings.folder, settings.lag
        store = Store(folder)
        skew = max(_read_skew(self._skew), store.latest() - time.time())
        clock = VirtualClock(speed=settings.speed, skew=skew)
        objects: ObjectSource = MotoObjects(ACCOUNT)
        if settings.s3:
            objects = ExternalObjects(settings.s3, environ.get("AWS_REGION") or "us-east-1", self.keys.s3)

        @cache
        def logs(region: str) -> LogGroups:
            arn = f"arn:aws:logs:{region}:{ACCOUNT}"
            return LogGroups(arn, clock, folder / "logs" / region if folder else None)

        support = FaultSupport(has_proxy=settings.proxy, has_s3=bool(settings.s3))
        return EmulatorContext(
            clock=clock,
            store=store,
            faults=FaultRules(settings.rules, why_never=support.why_never),
            roles=MotoRoles(ACCOUNT, clock.now, lag=lag.roles),
            objects=objects,
            logs=logs,
            metrics=CloudWatchMetrics(),
            keys=ContainerKeys(),
            tags=TagIndex(store, clock.now, lag.tags),
            lag=lag,
            s3_keys=self.keys.s3 if settings.s3 else None,
            has_registry=bool(settings.registry),
        )

    def resume(self) -> None:
        """Continue what was in progress when the emulator stopped."""
        self.context.hosting.resume()
        self.context.components.resume()
        self.context.jobs.resume()
        self.context.optimizations.resume()
        self._autoscaling.begin()
        self._schedules.begin()

    async def stop(self) -> None:
        await self._autoscaling.stop()
        await self._schedules.stop()
        await self.context.jobs.end_tasks()
        await self.context.optimizations.end_tasks()
        await self._queue.close()
        await self._runtime.close()
        await self.context.components.stop(grace=POLL_INTERVAL)
        await self.context.hosting.stop()
        self._moto.close()
        self.sync_clock()

    def sync_clock(self) -> None:
        """How far the clock is ahead, for the next start."""
        if self._skew is not None:
            write_atomically(self._skew, json.dumps({"skew": self.context.clock.skew()}).encode())


def _read_skew(path: Path | None) -> float:
    if path is None or not path.is_file():
        return 0.0
    return max(0.0, float(json.loads(path.read_text("utf-8"))["skew"]))
