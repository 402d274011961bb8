"""Processing jobs: work inside AWS, near the bucket."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings, ObservedJob


class Jobs(Protocol):
    def job(self, name: str) -> ObservedJob | None: ...

    def running(self) -> frozenset[str]:
        """The names of all in the account's region that have machines: as many requests as pages, not as jobs."""

    def since(self, moment: datetime) -> frozenset[str]:
        """The names of all that were created since then, with machines or not."""

    def start(self, name: str, settings: JobSettings, tags: Pairs) -> None:
        """Conflict if a job of this name exists; RoleNotAssumable as in the port Hosting."""

    def stop(self, name: str) -> None:
        """Stopping a finished job is no error."""

    def delete(self, name: str) -> None:
        """A finished job, so that its name is free again. A missing one is no error."""

    def lines(self, name: str) -> Iterator[str]:
        """The output of its containers so far."""
