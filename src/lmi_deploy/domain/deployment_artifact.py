"""The files that are deployed beside the weights: a few small files with one slot, the location of the weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final, Literal

from lmi_deploy.domain.java_properties import escape_value
from lmi_deploy.domain.recipe_keys import Pairs

SLOT: Final = "{{weights}}"
"""The placeholder in the server's settings that the target replaces by the location of the weights."""
MARKER: Final = "lmi.json"
"""The file that completes an artifact whose server has no serving.properties; servers ignore it."""
SlotFormat = Literal["java-properties", "json-string"]
"""How the location is escaped: as a value of a Java properties file, or inside double quotes (JSON, Protocol Buffers'
text format).
"""


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """`slot`: the format of the slot in it; None if it contains none, whatever its text looks like."""

    path: str
    content: bytes
    slot: SlotFormat | None = None

    def filled(self, location: str) -> ArtifactFile:
        """With the weights at `location`."""
        if self.slot is None:
            return self
        text = escape_value(location) if self.slot == "java-properties" else json.dumps(location)[1:-1]
        return ArtifactFile(self.path, self.content.replace(SLOT.encode(), text.encode("latin-1")))


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
        return tuple(file.filled(location) for file in self.files)


def filled_pairs(pairs: Pairs, location: str) -> Pairs:
    """Environment variables with the weights at `location`."""
    return tuple((name, value.replace(SLOT, location)) for name, value in pairs)
