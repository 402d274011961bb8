"""Machines beside a deployment that send load: those of one job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.ports.object_store import ObjectStore


class LoadMachines(Protocol):
    @property
    def count(self) -> int: ...

    @property
    def instance(self) -> str: ...

    @property
    def price(self) -> Price | None:
        """Of one of them for an hour; None: unknown."""

    @property
    def store(self) -> ObjectStore:
        """The bucket through which lmi and the machines talk."""

    @property
    def prefix(self) -> str:
        """Of their objects; known once they are started."""

    @property
    def details(self) -> Mapping[str, str]:
        """What the report says of their program, by name."""

    def require_able(self) -> Iterator[str]:
        """What cannot be checked. One error for all that would stop them: the quota, the role."""

    def start(self, files: Mapping[str, bytes], *, seconds: float) -> Iterator[Event]:
        """Write the files below the prefix, and start the machines, for so long at most. What an interrupted run left
        of the same deployment is ended first. UsageRefused if the time limit is shorter.
        """

    def observed(self) -> ObservedJob | None:
        """None: there are none any more."""

    def printed(self) -> list[str]:
        """What they have printed so far."""

    def end(self) -> Iterator[Event]:
        """Stop them, wait until they cost nothing, delete the job and its objects."""
