"""The history of a deployment, and what a target saw of it. The world, observed, outranks the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lmi_deploy.core.recipe import TargetName

SCHEMA = 1
KEPT_GENERATIONS = 5
Standing = Literal["in-step", "drifted", "absent", "failed", "starting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRef:
    """Enough to find a deployment again without its recipe."""

    name: str
    target: TargetName


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One spec that was brought up: what rollback and status need of it."""

    server: str
    spec: str
    artifact: str
    runtime: str
    host: str
    port: int
    summary: dict[str, Any]
    """Model, commit, engine, task and the like, for people and for the request codec."""
    since: str
    """ISO 8601, UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An action that was begun; `outcome` is None until it is known how it ended."""

    action: str
    names: dict[str, Any]
    outcome: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    ref: DeploymentRef
    generations: tuple[Generation, ...] = ()
    intents: tuple[Intent, ...] = ()

    @property
    def current(self) -> Generation | None:
        return self.generations[-1] if self.generations else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenServer:
    """A model server as it was found: `phase` is its own word, `gone` when no process answers."""

    server: str
    phase: Literal["starting", "loading", "ready", "failed", "draining", "gone"]
    pid: int | None
    port: int | None
    served: int = 0
    failed: int = 0
    in_flight: int = 0
    memory: int = 0
    """Bytes, resident, of the server and its workers."""
    since: str = ""
    message: str = ""
    runtime: str = "embedded"
    counted: bool = True
    """Whether the server tells how many requests it served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What this machine has already, so that it need not be made again."""

    engine: bool
    environment: bool
    missing_weights: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A deployment as it is now. `serving` names the server that answers at the deployment's address."""

    ref: DeploymentRef
    exists: bool
    """Whether anything of it was found: a folder, a record, a process."""
    record: Record | None
    servers: tuple[SeenServer, ...] = ()
    artifacts: tuple[str, ...] = ()
    serving: str | None = None


def promised_port(record: Record | None) -> int | None:
    """The port of the current generation, else of the server that an unfinished `up` began with."""
    if record is None:
        return None
    if record.current is not None:
        return record.current.port
    begun = (intent.names.get("port") for intent in record.intents if intent.action == "StartServer")
    return next((port for port in begun if port), None)
