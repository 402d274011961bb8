"""The records on this machine of its local deployments."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from lmi_deploy.domain.deployment_artifact import ArtifactFile
from lmi_deploy.domain.record import Record


class CopiedPath(NamedTuple):
    """A file that an artifact gets from elsewhere on this machine: `path` is its place in the artifact.

    `is_linked`: the source never changes in place, so that a hard link is as good as a copy.
    """

    path: str
    source: Path
    is_linked: bool
    oid: str
    """The sha256 that a copy must have; of a link, which was verified in its place, any hash."""


class State(Protocol):
    def names(self) -> tuple[str, ...]:
        """Every deployment with stored files."""

    def exists(self, name: str) -> bool:
        """Whether any file of this deployment is stored."""

    def read(self, name: str) -> Record | None:
        """Its record; None if there is none. Refused if it has a newer schema."""

    def artifacts(self, name: str) -> tuple[str, ...]:
        """Digests of the artifacts that are whole."""

    def artifact(self, name: str, digest: str) -> Path:
        """The folder of one artifact."""

    def put_artifact(
        self, name: str, digest: str, files: tuple[ArtifactFile, ...], copies: tuple[CopiedPath, ...] = ()
    ) -> None:
        """Write an artifact, whole or not at all."""

    def servers(self, name: str) -> tuple[Path, ...]:
        """Home folders of the servers that were started, oldest first."""

    def server(self, name: str, server: str) -> Path:
        """The home folder of one server."""

    def remove(self, name: str) -> None:
        """Everything of this deployment."""
