"""Optimization jobs: SageMaker compiles or shards a model."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.optimization_job import OptimizationSettings
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob


class ModelOptimizations(Protocol):
    """As the port Jobs; the statuses are those of processing jobs."""

    def job(self, name: str) -> ObservedJob | None: ...

    def running(self) -> frozenset[str]:
        """The names of all in the account's region that have machines: as many requests as pages, not as jobs."""

    def since(self, moment: datetime) -> frozenset[str]:
        """The names of all that were created since then, with machines or not."""

    def start(self, name: str, settings: OptimizationSettings, tags: Pairs) -> None:
        """Conflict if a job of this name exists; RoleNotAssumable as in the port Hosting."""

    def stop(self, name: str) -> None:
        """Stopping a finished job is no error."""

    def lines(self, name: str) -> Iterator[str]:
        """None: AWS names no log group of such jobs; the reason of a failure is in the job itself."""
