"""One instance: a container started from a model, pinged, its output shipped to CloudWatch Logs, ended."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from lmi_deploy.emulator.context import World
from lmi_deploy.emulator.faults.rules import Call
from lmi_deploy.emulator.hosting.container_files import Layer, Layout, require_container
from lmi_deploy.emulator.hosting.failure_reasons import no_ping, slow_download
from lmi_deploy.emulator.hosting.fault_points import pass_by
from lmi_deploy.emulator.hosting.network_access import Reach
from lmi_deploy.emulator.jobs.image_environment import Image
from lmi_deploy.emulator.logs.groups import LogGroups
from lmi_deploy.emulator.logs.shipping import POLL, Shipping
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.model_sources import sources_of
from lmi_deploy.ports.model_server import Launch, ModelServer
from lmi_deploy.ports.processes import Processes

PROVISION: Final = 90.0
"""Seconds until an instance is there; of the emulated clock, as all of these."""
DOWNLOAD_LIMIT: Final = 1800.0
STARTUP_LIMIT: Final = 600.0
RESTARTS: Final = 3
GRACE: Final = 60.0
"""Real seconds that a container gets for what it has in hand."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What containers are made of. Without `servers` none is started, and invocations are echoed."""

    servers: ModelServer | None
    python: Path
    engine: Callable[[], Path]
    processes: Processes
    mark: str
    """A variable in the environment of all that is started."""
    reach: Reach = field(default_factory=Reach)
    image: Image | None = None
    """Of processing jobs; without it they end at once."""


@dataclass(frozen=True, slots=True)
class Place:
    region: str
    endpoint: str
    variant: str
    kind: str
    component: str = ""
    """The inference component; empty for a variant's own model."""

    def path(self, phase: str) -> str:
        """What a fault rule matches."""
        place = f"/{phase}/{self.endpoint}/{self.variant}/{self.kind}"
        return f"{place}/{self.component}" if self.component else place

    @property
    def log_group(self) -> str:
        if self.component:
            return f"/aws/sagemaker/InferenceComponents/{self.component}"
        return f"/aws/sagemaker/Endpoints/{self.endpoint}"

    @property
    def words(self) -> str:
        """What a reason of failure calls it."""
        if self.component:
            return f"inference component {self.component}"
        return f"production variant {self.variant}"


@dataclass(slots=True)
class Instance:
    place: Place
    id: str
    root: Path
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
    """Starts and ends them. Everything that it waits for can be made to fail, hang or take long by a rule."""

    world: World
    layer: Layer
    workshop: Workshop
    logs: Callable[[str], LogGroups]
    root: Path

    async def bring_up(self, place: Place, variant: Row, *, role: str, began: float) -> Instance:
        """An instance that answers /ping, asked for at `began`; HostingFailed with the reason, and nothing left."""
        name = f"i-{secrets.token_hex(8)}"
        root = self.root / place.region / place.endpoint / f"{place.variant}-{name}"
        instance = Instance(place, name, root)
        try:
            await self._bring_up(instance, variant, role, began)
        except BaseException:
            await self.take_down(instance, grace=0.0)
            raise
        return instance

    async def _bring_up(self, instance: Instance, variant: Row, role: str, began: float) -> None:
        await self.provision(instance.place, began)
        isolated = bool(variant["model"].get("EnableNetworkIsolation"))
        layout = await self._lay(instance, variant, role, isolated=isolated)
        reach = self.workshop.reach.variables(self.world, role, instance.place.region, isolated=isolated)
        instance.variables = {**reach, **layout.environment}
        await self.pass_by("start", instance.place)
        await self._healthy(instance, variant["params"], layout)

    async def provision(self, place: Place, began: float) -> None:
        await self.pass_by("provision", place)
        await self.world.clock.until(began + PROVISION)

    async def pass_by(self, phase: str, place: Place) -> None:
        await pass_by(self.world, Call("HOSTING", place.path(phase)))

    async def _lay(self, instance: Instance, variant: Row, role: str, *, isolated: bool) -> Layout:
        container = require_container(variant["model"], instance.place.words)
        limit = variant["params"].get("ModelDataDownloadTimeoutInSeconds", DOWNLOAD_LIMIT)

        async def fetch() -> Layout:
            await self.pass_by("download", instance.place)
            lay = self.layer.lay
            return await asyncio.to_thread(lay, instance.root, container, role=role, isolated=isolated)

        try:
            return await self.world.clock.within(limit, fetch())
        except TimeoutError as exc:
            uri = next((source.uri for source in sources_of(container)), "")
            raise slow_download(uri, limit) from exc

    async def _healthy(self, instance: Instance, params: Mapping[str, Any], layout: Layout) -> None:
        """Start it, start it again when it ends, until it answers or the time is over."""
        if self.workshop.servers is None:
            return
        limit = params.get("ContainerStartupHealthCheckTimeoutInSeconds", STARTUP_LIMIT)
        deadline = self.world.clock.now() + limit
        instance.pump = asyncio.create_task(self._ship(instance))
        for _ in range(RESTARTS):
            try:
                if await self.world.clock.within(
                    deadline - self.world.clock.now(), self._answers(instance, layout)
                ):
                    return
            except TimeoutError:
                break
        # It will not come up any more; the service waits all the same.
        await self.world.clock.until(deadline)
        raise no_ping(instance.place.words)

    async def _answers(self, instance: Instance, layout: Layout) -> bool:
        """False when the container ended."""
        if layout.complaint:
            self._shipping(instance).say(layout.complaint)
            return False
        servers = self.workshop.servers
        assert servers is not None
        await asyncio.to_thread(servers.start, self._launch(instance, layout))
        async with aiohttp.ClientSession() as session:
            while True:
                seen = await asyncio.to_thread(servers.look, instance.home)
                if seen.phase in ("failed", "gone"):
                    return False
                if seen.port and await _pings(session, seen.port):
                    instance.port = seen.port
                    return True
                await asyncio.sleep(POLL)

    def _launch(self, instance: Instance, layout: Layout) -> Launch:
        return Launch(
            model_folder=layout.model_folder,
            home=instance.home,
            python=self.workshop.python,
            engine=self.workshop.engine(),
            host="127.0.0.1",
            port=0,
            environment=instance.variables,
            labels={"endpoint": instance.place.endpoint, "variant": instance.place.variant},
        )

    async def _ship(self, instance: Instance) -> None:
        """Container output to its log stream, line by line, as long as the instance lives."""
        servers = self.workshop.servers
        if servers is None or self._is_mute(instance):
            return
        await self._shipping(instance, servers.log(instance.home)).run()

    def _shipping(self, instance: Instance, path: Path = Path()) -> Shipping:
        logs = self.logs(instance.place.region)
        return Shipping(path, logs, instance.place.log_group, instance.log_stream)

    def _is_mute(self, instance: Instance) -> bool:
        """A rule for phase `logs`: no log group is ever made, as with a container that never started."""
        return self.world.faults.strike(Call("HOSTING", instance.place.path("logs"))) is not None

    async def take_down(self, instance: Instance, *, grace: float = GRACE) -> None:
        if self.workshop.servers is not None and instance.home.exists():
            await asyncio.to_thread(self.workshop.servers.stop, instance.home, grace=grace)
        if instance.pump is not None:
            await asyncio.sleep(2 * POLL)
            instance.pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await instance.pump
        await asyncio.to_thread(shutil.rmtree, instance.root, ignore_errors=True)

    def sweep(self) -> None:
        """End and remove what an emulator before this one left."""
        for root in self.root.glob("*/*/*/"):
            if self.workshop.servers is not None and (root / "home").exists():
                self.workshop.servers.stop(root / "home", grace=0.0)
            shutil.rmtree(root, ignore_errors=True)


async def _pings(session: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with session.get(
            f"http://127.0.0.1:{port}/ping", timeout=aiohttp.ClientTimeout(total=2.0)
        ) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
