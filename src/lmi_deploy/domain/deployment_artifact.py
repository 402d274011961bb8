"""The files that are deployed beside the weights: a few small files with one slot, the location of the weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import escape_value

SLOT = "{{weights}}"
"""The placeholder in serving.properties that the target replaces by the location of the weights."""


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Artifact:
    """`files` are sorted by path and contain the unfilled slot; the digest is over them."""

    files: tuple[ArtifactFile, ...]

    @property
    def digest(self) -> str:
        hasher = hashlib.sha256()
        for file in self.files:
            hasher.update(f"{len(file.path)}:{file.path}:{len(file.content)}:".encode())
            hasher.update(file.content)
        return hasher.hexdigest()

    def filled(self, location: str) -> tuple[ArtifactFile, ...]:
        """The files as the server reads them, with the weights at `location`."""
        value = escape_value(location).encode("latin-1")
        slot = SLOT.encode()
        return tuple(
            ArtifactFile(file.path, file.content.replace(slot, value))
            if file.path == SERVING_PROPERTIES
            else file
            for file in self.files
        )
