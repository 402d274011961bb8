"""What would be done, as data: every action concrete, none waiting for another's output."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.core.facts import FileEntry
from lmi_deploy.core.recipe import Pairs
from lmi_deploy.core.spec import ProbeSpec


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
    """A model server for one generation, on a free port of its own until it takes the address."""

    server: str
    artifact: str
    environment: str
    runtime: str
    settings: Pairs
    startup_timeout: int


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
    """The server accepts on the deployment's address from now on; `previous` drains and ends."""

    server: str
    host: str
    port: int
    previous: str | None


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


Action = (
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field that differs from what is live; empty text stands for absent."""

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
