"""The function for each action: the writes of one deployment on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.domain import local_actions
from lmi_deploy.domain.deployment_artifact import Artifact, filled_pairs
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.djl_serving import ENGINE_VERSION
from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.engines.inference_codec import Codec, codec_of
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import DeployFailed, NotCompiled, NotFound
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.compiled_models import CompiledModels
from lmi_deploy.ports.environments import Environments
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.image_builder import ImageBuilder
from lmi_deploy.ports.local_state import CopiedPath, State
from lmi_deploy.ports.model_server import Launch, ModelServer
from lmi_deploy.targets.local.readiness import ReadinessCheck
from lmi_deploy.targets.target import Hubs, Outcome, Perform

Steps = Generator[Event, None, Outcome]
_RUNTIME = "runtime"
"""In a server's home: the runtime that it was started with."""
_DRAIN = 90.0
"""Seconds for a server's last requests; above the server's own limit of 60."""
_NO_RESPONSE = 3.0
"""Seconds after SIGTERM for a server that does not respond (it hangs, is suspended, or has only just started)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPerformers:
    ref: DeploymentRef
    state: State
    servers: Mapping[str, ModelServer]
    clock: Clock
    compiled_models: CompiledModels
    release_port: Callable[[str], None]

    def deploy(
        self, spec: Spec, artifact: Artifact, hubs: Hubs, environments: Environments, builder: ImageBuilder
    ) -> Perform:
        deployer = _LocalDeployer(
            writes=self, spec=spec, artifact=artifact, hubs=hubs, environments=environments, builder=builder
        )
        return {**self.teardown(), **deployer.performers()}

    def teardown(self) -> Perform:
        """Those that need no spec."""
        return {
            local_actions.StopServer: self._stop,
            local_actions.RemoveArtifact: self._remove_artifact,
            local_actions.RemoveDeployment: self._remove,
            local_actions.AwaitReady: lambda action: self._pending_readiness().wait(action),
            local_actions.ProbeServer: lambda action: self._pending_readiness().probe(action),
            local_actions.TakeAddress: lambda action: self._pending_readiness().take(action),
        }

    def server_of(self, home: Path) -> ModelServer:
        return self.servers[runtime_of(home)]

    def home(self, server: str) -> Path:
        return self.state.server(self.ref.name, server)

    def readiness(self, host: str, codec: Codec) -> ReadinessCheck:
        return ReadinessCheck(
            name=self.ref.name,
            home=self.home,
            server_of=self.server_of,
            clock=self.clock,
            host=host,
            codec=codec,
        )

    def _pending_readiness(self) -> ReadinessCheck:
        """The unfinished part of an earlier `up`, from the record."""
        record = self.state.read(self.ref.name)
        if record is None or record.coming is None:
            raise NotFound(
                f"{self.ref.name}: no record of the new generation",
                hint="run `lmi up`, which writes the record",
            )
        return self.readiness(record.coming.host, codec_of(record.coming.serving, record.ref.name))

    def _stop(self, action: local_actions.StopServer) -> Steps:
        home = self.home(action.server)
        yield from _stop_server(self.server_of(home), home, key=action.key)
        return "ended"

    def _remove_artifact(self, action: local_actions.RemoveArtifact) -> Steps:
        yield from ()
        shutil.rmtree(self.state.artifact(self.ref.name, action.artifact), ignore_errors=True)
        return "removed"

    def _remove(self, action: local_actions.RemoveDeployment) -> Steps:
        yield from ()
        self.state.remove(action.name)
        return "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocalDeployer:
    """The actions that deploy one spec."""

    writes: LocalPerformers
    spec: Spec
    artifact: Artifact
    hubs: Hubs
    environments: Environments
    builder: ImageBuilder

    def performers(self) -> Perform:
        return {
            local_actions.InstallEngine: self._engine,
            local_actions.BuildEnvironment: self._environment,
            local_actions.FetchWeights: self._weights,
            local_actions.PutArtifact: self._artifact,
            local_actions.StartServer: self._start,
            local_actions.BuildImage: self._image,
            **self._readiness().performers(),
            local_actions.TakeAddress: self._take,
        }

    def _readiness(self) -> ReadinessCheck:
        codec = Codec(ENGINES[self.spec.engine.name], self.spec.engine.handler, self.spec.model.task)
        return self.writes.readiness(self.spec.machine.host, codec)

    def _engine(self, action: local_actions.InstallEngine) -> Steps:
        return (yield from self.environments.install_engine(action.version, key=action.key))

    def _environment(self, action: local_actions.BuildEnvironment) -> Steps:
        contents = (action.packages, action.requirements, action.setup)
        return (yield from self.environments.build(action.environment, *contents, key=action.key))

    def _image(self, action: local_actions.BuildImage) -> Steps:
        build = self.spec.machine.build
        assert build is not None
        return (yield from self.builder.build(build, action.image, key=action.key))

    @property
    def hub(self) -> Hub:
        """The source of the main model."""
        return self.hubs(self.spec.model.model_id)

    @property
    def _listing(self) -> ModelListing:
        return self.spec.model.listing(self.spec.weights.files)

    def _weights(self, action: local_actions.FetchWeights) -> Steps:
        model_id, commit, files = action.model_id, action.commit, action.files
        if self.spec.weights.compiled and (model_id, commit) == (
            self._listing.model_id,
            self._listing.commit,
        ):
            return f"in {self._weights_folder()}"
        listings = (self._listing, *(each.listing for each in self.spec.weights.additional))
        listing = next(
            each for each in listings if (each.model_id, each.commit, each.files) == (model_id, commit, files)
        )
        yield from self.hubs(model_id).fetch(listing, files, key=action.key)
        return f"{counted(len(files), 'file')} verified"

    def _artifact(self, action: local_actions.PutArtifact) -> Steps:
        if not self.spec.weights.compiled:
            # Existing files are not downloaded; but the cache records the revision, so that HF_HUB_OFFLINE finds it
            # again.
            yield from self.hub.fetch(self._listing, self.spec.weights.files, key=action.key)
        weights = self._weights_folder()
        folders: dict[str, Path] = {}
        for each in self.spec.weights.additional:
            hub = self.hubs(each.model_id)
            folders[each.weights_name] = yield from hub.fetch(each.listing, each.files, key=action.key)
        files = self.artifact.filled(str(weights), draft=str(self._draft_folder() or ""))
        # A folder of the user's may change in place, so that its files are copied.
        own = {each.weights_name for each in self.spec.weights.adapters if each.source == "folder"}
        copies = tuple(
            CopiedPath(file.path, folders[file.weights] / file.source, file.weights not in own, file.oid)
            for file in self.artifact.copied
        )
        self.writes.state.put_artifact(self.writes.ref.name, action.artifact, files, copies)
        return f"{len(files) + len(copies)} files"

    def _weights_folder(self) -> Path:
        """Of the main model, or of the result of its compile. NotCompiled if that is not here."""
        identity = self.spec.weights.compiled
        if not identity:
            return self.hub.folder(self._listing)
        found = self.writes.compiled_models.find(identity)
        if found is None:
            raise NotCompiled(
                f"{self.spec.name}: the result {identity[:8]} of `lmi compile` is not on this machine",
                hint="run `lmi compile` with the recipe again",
            )
        return found.folder

    def _draft_folder(self) -> Path | None:
        draft = self.spec.weights.draft
        return self.hubs(draft.model_id).folder(draft.listing) if draft else None

    def _start(self, action: local_actions.StartServer) -> Steps:
        yield from ()
        observed = self._run(action.server, host=action.host, port=action.port)
        return f"pid {observed.pid}" if observed.pid else observed.phase

    def _run(self, server: str, *, host: str, port: int) -> ObservedServer:
        home, place = self.writes.home(server), self.spec.machine
        weights = self._weights_folder()
        home.mkdir(parents=True, exist_ok=True)
        # Written before anything runs: a process that finds the home must know which runtime it belongs to.
        (home / _RUNTIME).write_text(place.runtime)
        launch = Launch(
            model_folder=self.writes.state.artifact(self.writes.ref.name, self.artifact.digest),
            home=home,
            python=self.environments.python(self.spec.environment),
            engine=self.environments.engine(ENGINE_VERSION),
            host=host,
            port=port,
            environment=dict(filled_pairs(place.environment, str(weights))),
            labels={
                "deployment": self.writes.ref.name,
                "server": server,
                "artifact": self.artifact.digest[:10],
                "address": f"{place.host}:{place.port}",
            },
            image=place.image,
            weights=weights,
            draft=self._draft_folder(),
            devices=0 if place.device == "CPU" else 1,
        )
        # The record names the port by now, so that no other `up` on this machine chooses it.
        self.writes.release_port(self.writes.ref.name)
        return self._server().start(launch)

    def _take(self, action: local_actions.TakeAddress) -> Steps:
        own, previous = self.writes.home(action.server), self.writes.home(action.previous)
        if action.loads_again:
            # It has proved itself beside the previous one, so it may be expected to load once more.
            self.writes.server_of(previous).stop(previous, grace=_DRAIN)
            self._server().stop(own, grace=_DRAIN)
            self._run(action.server, host=action.host, port=action.port)
            timeout = self.spec.machine.startup_timeout
            yield from self._readiness().ready(action.server, action.key, timeout=timeout)
            return f"{action.host}:{action.port}"
        return (yield from self._readiness().take(action))

    def _server(self) -> ModelServer:
        return self.writes.servers[self.spec.machine.runtime]


def runtime_of(home: Path) -> str:
    """The runtime that the server of this home was started with."""
    try:
        return (home / _RUNTIME).read_text() or "embedded"
    except OSError:
        return "embedded"


def _stop_server(server: ModelServer, home: Path, *, key: str) -> Generator[Event, None, None]:
    """Stop it and remove its home. DeployFailed if it still runs."""
    observed = server.status(home)
    silent = observed.phase == "starting"
    if observed.in_flight:
        note = f"{observed.in_flight} requests in flight"
        yield Progress(key=key, done=0, total=None, unit="seconds", note=note)
    if silent:
        text = (
            f"{home.name} (pid {observed.pid}) does not respond: lmi sends SIGTERM, and SIGKILL after "
            f"{_NO_RESPONSE:g} s"
        )
        yield Line(key=key, text=text)
    server.stop(home, grace=_NO_RESPONSE if silent else _DRAIN)
    left = server.status(home)
    if left.phase != "gone":
        raise DeployFailed(
            f"{home.name} is still {left.phase} (pid {left.pid})", hint="run the command again"
        )
    shutil.rmtree(home, ignore_errors=True)
