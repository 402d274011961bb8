"""Deployments in AWS that were deployed from this machine."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.record import DeploymentRef


class DeploymentIndex(Protocol):
    """A convenience: entries that it lost are found again by their tags."""

    def all(self) -> tuple[DeploymentRef, ...]:
        """By name, region and account. An entry of an older lmi may have no account."""

    def add(self, ref: DeploymentRef) -> None: ...

    def discard(self, ref: DeploymentRef) -> None:
        """Of exactly this account and region. Absent is no error."""
