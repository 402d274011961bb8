"""Processing jobs: work inside AWS, near the bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from lmi_deploy.core.recipe import Pairs, Vpc


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """All of CreateProcessingJob but name and tags."""

    role: str
    image: str
    instance: str
    count: int
    volume_gb: int
    command: tuple[str, ...]
    environment: Pairs
    inputs: tuple[tuple[str, str, str], ...]
    """(name, s3:// prefix, folder in the container)."""
    timeout: int
    """Seconds."""
    kms_key: str = ""
    vpc: Vpc | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """`status`: InProgress, Completed, Failed, Stopping, Stopped. `message` is what the container said at its end."""

    name: str
    arn: str
    status: str
    reason: str = ""
    message: str = ""


class Jobs(Protocol):
    def job(self, name: str) -> SeenJob | None: ...

    def start(self, name: str, settings: JobSettings, tags: Pairs) -> None:
        """Conflict where a job of this name exists."""

    def stop(self, name: str) -> None:
        """What has ended already is no error."""

    def lines(self, name: str) -> Iterator[str]:
        """What its containers printed, so far."""
