"""What one command prints with `--json`, beside the events that every command may print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

from lmi_deploy.workflows.remaining_storage import RemainingStorage

Document = dict[str, Any]
"""JSON whose form is another's: an IAM policy, a dashboard's body, a JSON Schema."""


class Merged(NamedTuple):
    """One object with the fields of several classes."""

    name: str
    kinds: tuple[type, ...]


Line = type | Merged


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput:
    """Each line is a TypedDict or a dataclass with its fields, without `event` and, of a result, without `ok`."""

    results: tuple[Line, ...]
    """One of these, if the command succeeds."""
    rows: tuple[Line, ...] = ()
    events: tuple[tuple[str, Line], ...] = ()
    """Events that no other command prints."""


class ServerResult(TypedDict):
    """Of a server, when it ends."""

    exit_code: int


class DeploymentFields(TypedDict):
    """`account` and `region` are empty on this machine."""

    deployment: str
    target: str
    account: str
    region: str


class DownResult(DeploymentFields):
    """`remaining`: what stays in billed storage, each with the command that deletes it (empty: lmi has none)."""

    removed: int
    remaining: list[RemainingStorage]


class UnlockResult(DeploymentFields):
    """`held_by` is empty if there was no lock."""

    held_by: str
