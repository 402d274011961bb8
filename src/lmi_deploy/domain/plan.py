"""The plan as data: every action concrete, none waiting for another's output."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.sagemaker.actions import (
    CloudAction,
    DeleteEndpointConfig,
    DeleteModel,
    MakeBucket,
    ProbeEndpoint,
    cloud_title,
)
from lmi_deploy.domain.spec import ProbeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallEngine:
    """DJL's Python engine, from Maven Central, into the cache."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildEnvironment:
    """The worker's Python environment, into the cache."""

    environment: str
    packages: tuple[str, ...]
    requirements: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWeights:
    """The chosen files of one commit, into the user's own Hub cache."""

    model_id: str
    commit: str
    files: tuple[FileEntry, ...]
    missing: int
    """Bytes that are not in the cache yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutArtifact:
    artifact: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartServer:
    """A model server for one generation: at the address itself, or beside the current server at that address."""

    server: str
    artifact: str
    environment: str
    engine: str
    """Version of DJL's Python engine."""
    runtime: str
    host: str
    port: int
    """0: any free one, until the deployment's address is taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitReady:
    server: str
    timeout: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeServer:
    server: str
    probe: ProbeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeAddress:
    """The server accepts on the deployment's address from now on, and `previous` no longer."""

    server: str
    host: str
    port: int
    previous: str
    loads_again: bool = False
    """No listening socket can be handed over: `previous` stops, then `server` starts again, at the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopServer:
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveArtifact:
    artifact: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDeployment:
    """The record, the lock and the folder of a deployment: the last of it."""

    name: str


LocalAction = (
    InstallEngine
    | BuildEnvironment
    | FetchWeights
    | PutArtifact
    | StartServer
    | AwaitReady
    | ProbeServer
    | TakeAddress
    | StopServer
    | RemoveArtifact
    | RemoveDeployment
)
"""The last three, and PutArtifact, are SageMaker's too."""
Action = LocalAction | CloudAction
CLEANUP_ACTIONS = (StopServer, RemoveArtifact, RemoveDeployment)
"""Target local's actions that make room on this machine."""


def key(action: Action) -> str:
    """An action's name in events: its kind and its object, unique within a plan."""
    subject = next(iter(dataclasses.asdict(action).values()))
    return f"{type(action).__name__}:{subject}"


def title(action: Action) -> str:  # noqa: C901 (one line an action; the cloud's are matched to the end)
    """An action in a few words, for people."""
    match action:
        case InstallEngine(version=version):
            return f"install DJL's Python engine {version}"
        case BuildEnvironment(environment=environment):
            return f"build the serving environment {environment}"
        case FetchWeights(model_id=model, commit=commit):
            return f"fetch {model} at {commit[:8]}"
        case PutArtifact(artifact=artifact):
            return f"write the artifact {artifact[:10]}"
        case StartServer(server=server, runtime=runtime):
            return f"start the model server {server} ({runtime})"
        case AwaitReady(server=server):
            return f"wait until {server} has loaded the model"
        case ProbeServer(server=server):
            return f"ask {server} for one real answer"
        case TakeAddress(host=host, port=port, loads_again=True):
            return f"take the address {host}:{port} (refuses requests while the model is loaded there again)"
        case TakeAddress(host=host, port=port):
            return f"take the address {host}:{port}"
        case StopServer(server=server):
            return f"end the model server {server}"
        case RemoveArtifact(artifact=artifact):
            return f"remove the artifact {artifact[:10]}"
        case RemoveDeployment(name=name):
            return f"remove the record of {name}"
        case _:
            return cloud_title(action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field that differs from the live one; empty text means absent."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`figures` are what the user should know before agreeing: bytes, memory, money."""

    deployment: str
    actions: tuple[Action, ...]
    changes: tuple[Change, ...] = ()
    figures: Pairs = ()

    @property
    def empty(self) -> bool:
        return not self.actions

    def has_action(self, kinds: type[Action] | tuple[type[Action], ...]) -> bool:
        """Whether one of the actions is of such a kind."""
        return any(isinstance(action, kinds) for action in self.actions)


PROBES = (ProbeServer, ProbeEndpoint)
"""The actions that send a probe."""
CLEANUP = (RemoveArtifact, StopServer, DeleteEndpointConfig, DeleteModel)
"""The actions that remove an old generation, once the new one serves."""
BOOTSTRAP = (MakeBucket,)
"""The actions that must precede the lock and the record."""
