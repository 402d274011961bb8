"""The emulator as a program: assembled, run until it must stop, stopped with everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import web

from lmi_deploy.emulator.app import CONTROL, EmulatorApp
from lmi_deploy.emulator.clock import VirtualClock
from lmi_deploy.emulator.consistency_lag import Lag
from lmi_deploy.emulator.context import ACCOUNT, EmulatorContext
from lmi_deploy.emulator.faults.byte_proxy import ByteProxy
from lmi_deploy.emulator.faults.rule_validation import FaultSupport
from lmi_deploy.emulator.faults.rules import FaultRules, Rule
from lmi_deploy.emulator.hosting.component_states import Components
from lmi_deploy.emulator.hosting.container_files import ContainerFiles
from lmi_deploy.emulator.hosting.endpoint_states import POLL_INTERVAL, EndpointController
from lmi_deploy.emulator.hosting.fleets import Fleets
from lmi_deploy.emulator.hosting.instances import ContainerRuntime, Instances
from lmi_deploy.emulator.hosting.s3_reader import ExternalObjects, MotoObjects, ObjectSource
from lmi_deploy.emulator.iam.authentication import Authentication
from lmi_deploy.emulator.iam.authorizer import Authorizer
from lmi_deploy.emulator.iam.container_keys import PATH, ContainerKeys
from lmi_deploy.emulator.iam.keyring import KeyPair, Keyring, own_keys
from lmi_deploy.emulator.iam.roles import MotoRoles
from lmi_deploy.emulator.jobs.container_files import JobContainerFiles
from lmi_deploy.emulator.jobs.hosts import Hosts
from lmi_deploy.emulator.jobs.job_states import JobController
from lmi_deploy.emulator.jobs.optimization_states import Optimizations
from lmi_deploy.emulator.logs.groups import LogGroups
from lmi_deploy.emulator.operations import Services
from lmi_deploy.emulator.record_store import Store, owned, write_atomically
from lmi_deploy.emulator.runtime.async_invocation import Queue
from lmi_deploy.emulator.runtime.invocation import RuntimeApi
from lmi_deploy.emulator.runtime.routes import Routes
from lmi_deploy.emulator.scaling.autoscaling_loop import AutoscalingLoop
from lmi_deploy.emulator.services.cloudwatch import TableAlarms
from lmi_deploy.emulator.services.metrics import Metrics
from lmi_deploy.emulator.services.moto import Moto
from lmi_deploy.emulator.services.tag_index import TagIndex
from lmi_deploy.emulator.startup_output import announce, environment_of
from lmi_deploy.errors import UsageRefused

HOST: Final = "127.0.0.1"
_WATCH: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int = 4566
    folder: Path | None = None
    speed: float = 60.0
    s3: str = ""
    proxy: bool = False
    rules: tuple[Rule, ...] = ()
    enforce_iam: bool = False
    lag: Lag = field(default_factory=Lag)
    as_json: bool = False
    stop_after: float | None = None
    parent: int | None = None
    key: KeyPair | None = None
    """The key with which requests must be signed; None: create one."""


class _NotStarted:
    """A placeholder for the services behind the resources until they exist; nothing starts before."""

    def begin(self, region: str, name: str) -> None:
        raise RuntimeError(f"nobody is there yet: {region} {name}")

    stop = begin


class Emulator:
    """All parts of a running emulator."""

    def __init__(
        self, settings: Settings, runtime: ContainerRuntime, environ: Mapping[str, str], work: Path
    ) -> None:
        store = Store(settings.folder)
        self._skew = settings.folder / "clock.json" if settings.folder else None
        skew = max(_read_skew(self._skew), store.latest() - time.time())
        clock = VirtualClock(speed=settings.speed, skew=skew)
        self.keys = own_keys(settings.key, settings.folder, environ if settings.s3 else None)
        objects: ObjectSource = MotoObjects(ACCOUNT)
        if settings.s3:
            objects = ExternalObjects(settings.s3, environ.get("AWS_REGION") or "us-east-1", self.keys.s3)
        possible = FaultSupport(has_proxy=settings.proxy, has_s3=bool(settings.s3))
        roles = MotoRoles(ACCOUNT, clock.now, lag=settings.lag.roles)
        self.context = EmulatorContext(
            clock=clock,
            store=store,
            faults=FaultRules(settings.rules, why_never=possible.why_never),
            roles=roles,
            objects=objects,
            alarms=TableAlarms(store),
            hosting=_NotStarted(),
            components=_NotStarted(),
            optimizations=_NotStarted(),
            jobs=_NotStarted(),
            keys=(keys := ContainerKeys()),
            tags=TagIndex(store, clock.now, settings.lag.tags),
            lag=settings.lag,
            s3_keys=self.keys.s3 if settings.s3 else None,
        )
        self._logs = _log_groups(clock, settings.folder)
        made_by = Instances(
            self.context, ContainerFiles(objects, roles), runtime, self._logs, work / "hosting"
        )
        fleets = Fleets(made_by)
        self.endpoints = EndpointController(self.context, fleets)
        self.context.hosting = self.endpoints
        self.components = Components(self.context, made_by)
        self.context.components = self.components
        self.optimizations = Optimizations(self.context)
        self.context.optimizations = self.optimizations
        self.jobs = JobController(self.context, self._hosts(runtime, objects, work / "jobs"))
        self.context.jobs = self.jobs
        metrics = Metrics()
        self.autoscaling = AutoscalingLoop(self.context, metrics)
        self.runtime = RuntimeApi(self.context, Routes(self.context, fleets, self.components), metrics)
        self.moto = Moto(ACCOUNT, settings.folder / "moto" if settings.folder else None)
        self.queue = Queue(self.runtime, objects)
        self.front = self._front(metrics, Authorizer(ACCOUNT) if settings.enforce_iam else None)
        self.front.more = (web.get(PATH, keys.serve),)

    def _front(self, metrics: Metrics, guard: Authorizer | None) -> EmulatorApp:
        services = Services(self.context, self._logs, metrics, guard)
        known = Authentication(Keyring(ACCOUNT, self.keys), control=CONTROL, free=PATH.partition("{")[0])
        return EmulatorApp(
            self.context, services, self.runtime, self.queue, self.moto, guard, known, self.sync_clock
        )

    def _hosts(self, runtime: ContainerRuntime, objects: ObjectSource, folder: Path) -> Hosts:
        layer = JobContainerFiles(objects, self.context.roles)
        return Hosts(self.context, layer, runtime.image, runtime.processes, self._logs, folder)

    def resume(self) -> None:
        """Continue what was in progress when the emulator stopped."""
        self.endpoints.resume()
        self.components.resume()
        self.jobs.resume()
        self.optimizations.resume()
        self.autoscaling.begin()

    async def stop(self) -> None:
        await self.autoscaling.stop()
        await self.jobs.close()
        await self.optimizations.stop()
        await self.queue.close()
        await self.runtime.close()
        await self.components.stop(grace=POLL_INTERVAL)
        await self.endpoints.stop()
        self.moto.close()
        self.sync_clock()

    def sync_clock(self) -> None:
        """How far the clock is ahead, for the next start."""
        if self._skew is not None:
            write_atomically(self._skew, json.dumps({"skew": self.context.clock.skew()}).encode())


async def run(settings: Settings, runtime: ContainerRuntime, environ: Mapping[str, str]) -> None:
    """Serve until SIGTERM, SIGINT, the end of the time given or of the parent."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    # The stored files hold keys, and the containers' files decide what runs: no other user may read or write them.
    os.umask(0o077)
    stop_requested = _signals()
    with _work_folder(settings) as work, _watchdog(settings, runtime, work):
        emulator = Emulator(settings, runtime, environ, work)
        runner = web.AppRunner(emulator.front.app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            # With a proxy, clients connect to it: it gets the port.
            address = await _listen(runner, 0 if settings.proxy else settings.port)
            emulator.context.address = address
            emulator.resume()
            with _proxied(settings, address, emulator.context.faults) as (aws, s3):
                announce(environment_of(aws, s3, emulator.keys.displayed), as_json=settings.as_json)
                await _stop_requested(settings, stop_requested)
        finally:
            await runner.cleanup()
            await emulator.stop()


@contextlib.contextmanager
def _proxied(settings: Settings, address: str, faults: FaultRules) -> Iterator[tuple[str, str]]:
    """The addresses for clients: the services themselves, or the byte proxies before them."""
    if not settings.proxy:
        yield address, settings.s3
        return
    targets = {"aws": address, **({"s3": settings.s3} if settings.s3 else {})}
    ports = {"aws": settings.port}
    proxies: dict[str, ByteProxy] = {}
    try:
        for name, target in targets.items():
            proxies[name] = ByteProxy(name, target, faults, port=ports.get(name, 0))
    except OSError as exc:
        raise _port_in_use(settings.port, exc) from exc
    for proxy in proxies.values():
        proxy.start()
    try:
        yield proxies["aws"].url, proxies["s3"].url if "s3" in proxies else ""
    finally:
        for proxy in proxies.values():
            proxy.close()


async def _listen(runner: web.AppRunner, port: int) -> str:
    site = web.TCPSite(runner, HOST, port)
    try:
        await site.start()
    except OSError as exc:
        raise _port_in_use(port, exc) from exc
    _, bound = runner.addresses[0][:2]
    return f"http://{HOST}:{bound}"


def _port_in_use(port: int, why: OSError) -> UsageRefused:
    return UsageRefused(
        f"port {port} of {HOST} cannot be had: {why.strerror}",
        hint="choose another with --port, or 0 for any",
    )


def _signals() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    return stop_requested


async def _stop_requested(settings: Settings, stop_requested: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + settings.stop_after if settings.stop_after is not None else None
    while not stop_requested.is_set() and (end is None or loop.time() < end) and _has_parent(settings.parent):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop_requested.wait(), _WATCH)


def _has_parent(pid: int | None) -> bool:
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def _work_folder(settings: Settings) -> Iterator[Path]:
    """Where containers run: in the given folder, so that files left by a kill can be found; else in a temporary one."""
    if settings.folder is not None:
        with owned(settings.folder):
            yield settings.folder
        return
    with tempfile.TemporaryDirectory(prefix="lmi-emulator-") as folder:
        yield Path(folder)


def _watchdog(settings: Settings, runtime: ContainerRuntime, work: Path) -> AbstractContextManager[None]:
    """After a kill of this program, too, its processes are stopped and its temporary files deleted."""
    fleeting = () if settings.folder is not None else (work,)
    return runtime.processes.cleanup_on_exit(runtime.process_mark, folders=fleeting)


def _log_groups(clock: VirtualClock, folder: Path | None) -> Callable[[str], LogGroups]:
    existing: dict[str, LogGroups] = {}

    def of(region: str) -> LogGroups:
        if region not in existing:
            existing[region] = LogGroups(clock, folder / "logs" / region if folder else None)
        return existing[region]

    return of


def _read_skew(path: Path | None) -> float:
    if path is None or not path.is_file():
        return 0.0
    return max(0.0, float(json.loads(path.read_text("utf-8"))["skew"]))
