"""One instance: a container started from a model, pinged, its output shipped to CloudWatch Logs, ended."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final

import aiohttp

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.faults.rules import Call
from lmi_deploy.emulator.hosting.container_files import ContainerFiles, Layout, no_ping, require_container
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed, apply_faults
from lmi_deploy.emulator.hosting.instance_pools import NO_CAPACITY, take_capacity
from lmi_deploy.emulator.hosting.network_access import NetworkAccess
from lmi_deploy.emulator.hosting.resource_tasks import Key
from lmi_deploy.emulator.hosting.stand_ins import ContainerServers
from lmi_deploy.emulator.jobs.image_environment import JobImage
from lmi_deploy.emulator.logs.groups import POLL, LogShipper
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.containers import sources_of
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Processes

OF_COMPONENTS: Final = frozenset(
    {"Invocations", "Invocation4XXErrors", "Invocation5XXErrors", "ModelLatency"}
)
"""The metrics of invocations that also an inference component has."""
PROVISION: Final = 90.0
"""Seconds until an instance exists; of the emulated clock, as all of these."""
DOWNLOAD_LIMIT: Final = 1800.0
STARTUP_LIMIT: Final = 600.0
RESTARTS: Final = 3
GRACE: Final = 60.0
"""Real seconds that a container gets for requests in progress."""


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """How containers are started. Without `servers` none is started, and invocations are echoed."""

    servers: ContainerServers | None
    python: Path
    engine: Callable[[], Path]
    processes: Processes
    process_mark: str
    """A variable in the environment of all that is started."""
    reach: NetworkAccess = field(default_factory=NetworkAccess)
    image: JobImage | None = None
    """For processing jobs; without it they finish immediately."""


@dataclass(frozen=True, slots=True)
class InstanceLocation:
    region: str
    endpoint: str
    variant: str
    kind: str
    component: str = ""
    """The inference component; empty for a variant's own model."""

    def path(self, phase: str) -> str:
        """The path that a fault rule matches."""
        place = f"/{phase}/{self.endpoint}/{self.variant}/{self.kind}"
        return f"{place}/{self.component}" if self.component else place

    def metric_dimensions(self, metric: str) -> Iterator[tuple[tuple[str, str], ...]]:
        """Those of a metric of an invocation. Source: SageMaker developer guide, "Amazon SageMaker AI metrics in Amazon
        CloudWatch", dimensions for endpoint invocation metrics.
        """
        yield (("EndpointName", self.endpoint), ("VariantName", self.variant))
        if self.component and metric in OF_COMPONENTS:
            yield (("InferenceComponentName", self.component),)

    @property
    def log_group(self) -> str:
        if self.component:
            return f"/aws/sagemaker/InferenceComponents/{self.component}"
        return f"/aws/sagemaker/Endpoints/{self.endpoint}"

    @property
    def words(self) -> str:
        """Its name in a failure reason."""
        if self.component:
            return f"inference component {self.component}"
        return f"production variant {self.variant}"


@dataclass(slots=True)
class HostingInstance:
    place: InstanceLocation
    id: str
    root: Path
    image: str = ""
    port: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    pump: asyncio.Task[None] | None = field(default=None, repr=False)
    in_flight: int = 0

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def log_stream(self) -> str:
        return f"{self.place.variant}/{self.id}"


@dataclass(slots=True)
class Instances:
    """Starts and stops instances. A fault rule can make each step fail, hang or take long."""

    context: EmulatorContext
    runtime: ContainerRuntime
    root: Path

    async def start(
        self, place: InstanceLocation, variant: Row, *, role: str, started: float
    ) -> HostingInstance:
        """An instance that answers /ping, requested at `started`; HostingFailed with the reason, after everything is
        removed.
        """
        name = f"i-{secrets.token_hex(8)}"
        root = self.root / place.region / place.endpoint / f"{place.variant}-{name}"
        instance = HostingInstance(place, name, root)
        try:
            await self.provision(started)
            isolated = bool(variant["model"].get("EnableNetworkIsolation"))
            layout = await self._write_files(instance, variant, role, isolated=isolated)
            instance.image = require_container(variant["model"], place.words).get("Image", "")
            reach = self.runtime.reach.variables(self.context, role, place.region, isolated=isolated)
            instance.variables = {**reach, **layout.environment}
            await self.apply_faults("start", place)
            await self._healthy(instance, variant["params"], layout)
        except BaseException:
            await self.take_down(instance, grace=0.0)
            raise
        return instance

    async def provide(self, key: Key, variant: Row, count: int) -> str:
        """The type of `count` instances more. HostingFailed if a rule says that there is no capacity, or if it makes
        the search take longer than the variant's time limit.
        """

        async def attempt(kind: str) -> None:
            await self.apply_faults("provision", InstanceLocation(*key, variant["name"], kind))

        params, clock = variant["params"], self.context.clock
        limit = (
            params.get("VariantInstanceProvisionTimeoutInSeconds", inf) if "InstancePools" in params else inf
        )
        try:
            async with clock.deadline(clock.now() + limit):
                return await take_capacity(variant, count, attempt)
        except TimeoutError as exc:
            raise HostingFailed(f"{NO_CAPACITY} No pool had capacity within {limit} seconds.") from exc

    async def require_access(self, place: InstanceLocation, model: Row, role: str) -> None:
        """That one more instance of a model could start; of several, one alone is real. HostingFailed if not."""
        container = require_container(model, place.words)
        files = ContainerFiles(self.context, self.root, role)
        await asyncio.to_thread(files.require_access, container, place.words)

    async def provision(self, started: float) -> None:
        await self.context.clock.until(started + PROVISION)

    async def apply_faults(self, phase: str, place: InstanceLocation) -> None:
        await apply_faults(self.context, Call("HOSTING", place.path(phase)))

    async def _write_files(
        self, instance: HostingInstance, variant: Row, role: str, *, isolated: bool
    ) -> Layout:
        container = require_container(variant["model"], instance.place.words)
        limit = variant["params"].get("ModelDataDownloadTimeoutInSeconds", DOWNLOAD_LIMIT)

        async def fetch() -> Layout:
            await self.apply_faults("download", instance.place)
            write = ContainerFiles(self.context, instance.root, role).write
            return await asyncio.to_thread(write, container, isolated=isolated)

        try:
            return await self.context.clock.within(limit, fetch())
        except TimeoutError as exc:
            uri = next((source.uri for source in sources_of(container)), "")
            raise HostingFailed(
                f'Failed to download model data for container "container_1" from URL: "{uri}" within '
                f"{limit:.0f} seconds. Please increase ModelDataDownloadTimeoutInSeconds of the production variant."
            ) from exc

    async def _healthy(self, instance: HostingInstance, params: Mapping[str, Any], layout: Layout) -> None:
        """Start it, restart it when it exits, until it answers or the time is over."""
        # Without containers, too, one that cannot get its weights fails.
        if self.runtime.servers is None and not layout.complaint:
            return
        limit = params.get("ContainerStartupHealthCheckTimeoutInSeconds", STARTUP_LIMIT)
        deadline = self.context.clock.now() + limit
        instance.pump = asyncio.create_task(self._ship(instance))
        for _ in range(RESTARTS):
            try:
                if await self.context.clock.within(
                    deadline - self.context.clock.now(), self._is_responding(instance, layout)
                ):
                    return
            except TimeoutError:
                break
        # It can no longer start; the service waits nevertheless.
        await self.context.clock.until(deadline)
        raise no_ping(instance.place.words)

    async def _is_responding(self, instance: HostingInstance, layout: Layout) -> bool:
        """False when the container ended."""
        if layout.complaint:
            self._shipping(instance).write_line(layout.complaint)
            return False
        servers = self.runtime.servers
        assert servers is not None
        launch = Launch(
            model_folder=layout.model_folder,
            home=instance.home,
            python=self.runtime.python,
            engine=self.runtime.engine(),
            host="127.0.0.1",
            port=0,
            environment=instance.variables,
            labels={"endpoint": instance.place.endpoint, "variant": instance.place.variant},
            image=instance.image,
            # Its adapters are registered by the server's own API, as in a container.
            managed_by_clients=bool(instance.place.component),
        )
        await asyncio.to_thread(servers.start, launch)
        async with aiohttp.ClientSession() as session:
            while True:
                observed = await asyncio.to_thread(servers.status, instance.home)
                if observed.phase in ("failed", "gone"):
                    return False
                if observed.port and await _pings(session, observed.port):
                    instance.port = observed.port
                    return True
                await asyncio.sleep(POLL)

    async def _ship(self, instance: HostingInstance) -> None:
        """Copy container output to its log stream, line by line, as long as the instance runs.

        A rule for phase `logs`: no log group is created, as for a container that never started.
        """
        rule = self.context.faults.apply(Call("HOSTING", instance.place.path("logs")))
        if self.runtime.servers is not None and rule is None:
            await self._shipping(instance, self.runtime.servers.log(instance.home)).run()

    def _shipping(self, instance: HostingInstance, path: Path = Path()) -> LogShipper:
        logs = self.context.logs(instance.place.region)
        return LogShipper(path, logs, instance.place.log_group, instance.log_stream)

    async def take_down(self, instance: HostingInstance, *, grace: float = GRACE) -> None:
        if self.runtime.servers is not None and instance.home.exists():
            await asyncio.to_thread(self.runtime.servers.stop, instance.home, grace=grace)
        if instance.pump is not None:
            await asyncio.sleep(2 * POLL)
            instance.pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await instance.pump
        await asyncio.to_thread(shutil.rmtree, instance.root, ignore_errors=True)

    def sweep(self) -> None:
        """Stop and remove what an earlier emulator left."""
        for root in self.root.glob("*/*/*/"):
            if self.runtime.servers is not None and (root / "home").exists():
                self.runtime.servers.stop(root / "home", grace=0.0)
            shutil.rmtree(root, ignore_errors=True)


async def _pings(session: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with session.get(
            f"http://127.0.0.1:{port}/ping", timeout=aiohttp.ClientTimeout(total=2.0)
        ) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
