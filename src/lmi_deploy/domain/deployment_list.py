"""Deployments as lists show them: those of an account's region, and those that `lmi gc` may delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lmi_deploy.domain.record import DeploymentRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDeployment:
    """What lists know of a deployment: neither its record nor its settings."""

    ref: DeploymentRef
    status: str = ""
    """The provider's own word for it; empty if it has no endpoint, or nothing says."""
    tagged_endpoint: bool = False
    """Whether the tag search, which lags, shows an endpoint."""
    created: str = ""
    """ISO 8601."""
    modified: str = ""
    model: str = ""
    """By the name of its weights; empty if no tag names them."""
    expires: str = ""
    expired: bool = False
    shared: Literal["", "endpoint", "model"] = ""
    """Whether it is an endpoint that several deployments share, or a deployment on one."""
    components: tuple[str, ...] = ()
    """The inference components that its requests may name: its model and what belongs to it. Empty for an endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDeployments:
    """Those of an account's region, by name."""

    region: str = ""
    account: str = ""
    found: tuple[ListedDeployment, ...] = ()
    untagged: frozenset[str] = frozenset()
    """Names of endpoints that the tag search does not show: not ours, or new."""
    unlisted_reason: str = ""
    """Why no endpoint has a status; empty if they have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedDeployment:
    """A deployment that may be taken away, and why."""

    ref: DeploymentRef
    why: str
    resources: int
    jobs_only: bool = False
    """Only its load job is left over: the deployment itself stays."""
