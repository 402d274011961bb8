"""Target `local`: the same artifact on this machine, one server process, an address that stays."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.domain import plan
from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.observed import Inventory, LocalInventory, LocalObserved, Observed, ObservedServer
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.domain.spec import Spec
from lmi_deploy.engines.codec import Codec, codec_of
from lmi_deploy.engines.engine import ENGINE_PACKAGE_VERSION
from lmi_deploy.engines.registry import engine
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.environments import Environments
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.local_state import State
from lmi_deploy.ports.model_server import Launch, ModelServer
from lmi_deploy.targets.local.http_client import INVOCATIONS, exchange
from lmi_deploy.targets.local.log_file import tail
from lmi_deploy.targets.local.readiness import ReadinessCheck
from lmi_deploy.targets.local.stop import DRAIN, stop
from lmi_deploy.targets.target import Outcome, Perform

Steps = Generator[Event, None, Outcome]
_RUNTIME = "runtime"
"""In a server's home: the runtime that it was started with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTarget:
    state: State
    servers: Mapping[str, ModelServer]
    environments: Environments
    clock: Clock

    def list_known(self) -> tuple[DeploymentRef, ...]:
        return tuple(DeploymentRef(name=name, target="local") for name in self.state.names())

    def status_of(self, home: Path) -> ObservedServer:
        """The server of one home, by the runtime that it was started with."""
        return self.server_of(home).status(home)

    def observe(self, ref: DeploymentRef) -> LocalObserved:
        servers = tuple(self.status_of(home) for home in self.state.servers(ref.name))
        record = self.state.read(ref.name)
        return LocalObserved(
            ref=ref,
            exists=self.state.exists(ref.name),
            record=record,
            servers=servers,
            artifacts=self.state.artifacts(ref.name),
            serving=_serving(servers, self.state, ref.name),
        )

    def read_record(self, ref: DeploymentRef) -> Record | None:
        return self.state.read(ref.name)

    def confirm(self, observed: Observed) -> Observed:
        return observed

    def inspect(self, ref: DeploymentRef) -> LocalObserved:
        return self.observe(ref)

    def observe_all(self, ref: DeploymentRef) -> LocalObserved:
        return self.observe(ref)

    def with_prices(self, spec: Spec, inventory: Inventory) -> Inventory:
        return inventory

    def inventory(self, spec: Spec, hub: Hub) -> LocalInventory:
        return LocalInventory(
            engine=self.environments.engine_ready(ENGINE_PACKAGE_VERSION),
            environment=self.environments.ready(spec.environment),
            missing_weights=hub.missing(spec.model.listing(spec.weights.files), spec.weights.files),
        )

    def remember(self, ref: DeploymentRef) -> None:
        """Its lock and its record are created first, on the same disk."""

    def deploy_actions(self, spec: Spec, artifact: Artifact, hub: Hub) -> Perform:
        ref = DeploymentRef(name=spec.name, target="local")
        deployer = _LocalDeployer(target=self, ref=ref, spec=spec, artifact=artifact, hub=hub)
        return {**self.teardown_actions(ref), **deployer.performers()}

    def teardown_actions(self, ref: DeploymentRef) -> Perform:
        return {
            plan.StopServer: lambda action: self._stop(ref, action),
            plan.RemoveArtifact: lambda action: self._remove_artifact(ref, action),
            plan.RemoveDeployment: self._remove,
            plan.AwaitReady: lambda action: self._pending_readiness(ref).wait(action),
            plan.ProbeServer: lambda action: self._pending_readiness(ref).probe(action),
            plan.TakeAddress: lambda action: self._pending_readiness(ref).take(action),
        }

    def readiness(self, ref: DeploymentRef, host: str, codec: Codec) -> ReadinessCheck:
        return ReadinessCheck(
            name=ref.name,
            home=lambda server: self.state.server(ref.name, server),
            server_of=self.server_of,
            clock=self.clock,
            host=host,
            codec=codec,
        )

    def _pending_readiness(self, ref: DeploymentRef) -> ReadinessCheck:
        """The unfinished part of an earlier `up`, from the record."""
        record = self.state.read(ref.name)
        if record is None or record.coming is None:
            raise NotFound(f"{ref.name}: no record says what is coming", hint="`lmi up` writes one")
        response = {key: str(value) for key, value in record.coming.summary.items()}
        return self.readiness(ref, record.coming.host, codec_of(response))

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        host, port = self._place(ref)
        return exchange(host, port, request, name=ref.name, timeout=timeout)

    def address(self, ref: DeploymentRef) -> str:
        host, port = self._place(ref)
        return f"http://{host}:{port}{INVOCATIONS}"

    def _place(self, ref: DeploymentRef) -> tuple[str, int]:
        """Its address: of the pending generation, else of the current one."""
        record = self.state.read(ref.name)
        generation = (record.current or record.coming) if record else None
        if generation is None:
            raise NotFound(
                f"{ref.name}: no deployment of that name answers here", hint="`lmi ls` lists what is here"
            )
        return generation.host, generation.port

    def logs(self, ref: DeploymentRef, *, follow: bool) -> Iterator[str]:
        homes = self.state.servers(ref.name)
        if not homes:
            raise NotFound(f"{ref.name}: nothing was started here", hint="`lmi ls` lists what is here")
        serving = self.observe(ref).serving
        home = next((home for home in homes if home.name == serving), homes[-1])
        return tail(self.server_of(home).log(home), follow=follow, clock=self.clock)

    def server_of(self, home: Path) -> ModelServer:
        return self.servers[runtime_of(home)]

    def _stop(self, ref: DeploymentRef, action: plan.StopServer) -> Steps:
        home = self.state.server(ref.name, action.server)
        yield from stop(self.server_of(home), home, key=plan.key(action))
        return "ended"

    def _remove_artifact(self, ref: DeploymentRef, action: plan.RemoveArtifact) -> Steps:
        yield from ()
        shutil.rmtree(self.state.artifact(ref.name, action.artifact), ignore_errors=True)
        return "removed"

    def _remove(self, action: plan.RemoveDeployment) -> Steps:
        yield from ()
        self.state.remove(action.name)
        return "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocalDeployer:
    """The actions that deploy one spec."""

    target: LocalTarget
    ref: DeploymentRef
    spec: Spec
    artifact: Artifact
    hub: Hub

    def performers(self) -> Perform:
        return {
            plan.InstallEngine: self._engine,
            plan.BuildEnvironment: self._environment,
            plan.FetchWeights: self._weights,
            plan.PutArtifact: self._artifact,
            plan.StartServer: self._start,
            **self._readiness().performers(),
            plan.TakeAddress: self._take,
        }

    def _readiness(self) -> ReadinessCheck:
        codec = Codec(engine(self.spec.engine.name), self.spec.engine.handler, self.spec.model.task)
        return self.target.readiness(self.ref, self.spec.machine.host, codec)

    def _engine(self, action: plan.InstallEngine) -> Steps:
        return (yield from self.target.environments.install_engine(action.version, key=plan.key(action)))

    def _environment(self, action: plan.BuildEnvironment) -> Steps:
        build = self.target.environments.build
        return (
            yield from build(action.environment, action.packages, action.requirements, key=plan.key(action))
        )

    def _weights(self, action: plan.FetchWeights) -> Steps:
        listing = self.spec.model.listing(action.files)
        yield from self.hub.fetch(listing, action.files, key=plan.key(action))
        return f"{len(action.files)} files verified"

    def _artifact(self, action: plan.PutArtifact) -> Steps:
        listing = self.spec.model.listing(self.spec.weights.files)
        # Existing files are not downloaded; but the cache records the revision, so that HF_HUB_OFFLINE finds it
        # again.
        yield from self.hub.fetch(listing, self.spec.weights.files, key=plan.key(action))
        files = self.artifact.filled(str(self.hub.folder(listing)))
        self.target.state.put_artifact(self.ref.name, action.artifact, files)
        return f"{len(files)} files"

    def _start(self, action: plan.StartServer) -> Steps:
        yield from ()
        observed = self._run(action.server, host=action.host, port=action.port)
        return f"pid {observed.pid}" if observed.pid else observed.phase

    def _run(self, server: str, *, host: str, port: int) -> ObservedServer:
        home, place = self._home(server), self.spec.machine
        home.mkdir(parents=True, exist_ok=True)
        # Written before anything runs: a process that finds the home must know which runtime it belongs to.
        (home / _RUNTIME).write_text(place.runtime)
        environments = self.target.environments
        launch = Launch(
            model_folder=self.target.state.artifact(self.ref.name, self.artifact.digest),
            home=home,
            python=environments.python(self.spec.environment),
            engine=environments.engine(ENGINE_PACKAGE_VERSION),
            host=host,
            port=port,
            environment=dict(place.environment),
            labels={
                "deployment": self.ref.name,
                "server": server,
                "artifact": self.artifact.digest[:10],
                "address": f"{place.host}:{place.port}",
            },
            image=place.image,
            weights=self.hub.folder(self.spec.model.listing(self.spec.weights.files)),
            devices=0 if place.device == "CPU" else 1,
        )
        return self._server().start(launch)

    def _take(self, action: plan.TakeAddress) -> Steps:
        own, previous = self._home(action.server), self._home(action.previous)
        if action.loads_again:
            # It has proved itself beside the previous one, so it may be expected to load once more.
            self.target.server_of(previous).stop(previous, grace=DRAIN)
            self._server().stop(own, grace=DRAIN)
            self._run(action.server, host=action.host, port=action.port)
            timeout = self.spec.machine.startup_timeout
            yield from self._readiness().ready(action.server, plan.key(action), timeout=timeout)
            return f"{action.host}:{action.port}"
        return (yield from self._readiness().take(action))

    def _server(self) -> ModelServer:
        return self.target.servers[self.spec.machine.runtime]

    def _home(self, server: str) -> Path:
        return self.target.state.server(self.ref.name, server)


def runtime_of(home: Path) -> str:
    """The runtime that the server of this home was started with."""
    try:
        return (home / _RUNTIME).read_text() or "embedded"
    except OSError:
        return "embedded"


def _serving(servers: tuple[ObservedServer, ...], state: State, name: str) -> str | None:
    """The ready server at the deployment's address, of any generation."""
    record = state.read(name)
    ready = [server for server in servers if server.phase == "ready"]
    if record is None:
        # A record exists before anything is started. So the record was lost, and the only ready server is the current
        # one.
        return ready[0].server if len(ready) == 1 else None
    port = record.current.port if record.current else None
    return next((server.server for server in ready if server.port == port), None)
