"""The files that are deployed beside the weights: a few small files with slots for the locations of models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from lmi_deploy.domain.java_properties import escape_value
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.settings_digest import digest_tag

SLOT: Final = "{{weights}}"
"""The placeholder in the server's settings that the target replaces by the location of the weights."""
DRAFT_SLOT: Final = "{{draft}}"
"""The same for the draft model of speculative decoding. It is inside JSON, whatever the file's format."""
MARKER: Final = "lmi.json"
"""The file that completes an artifact whose server has no serving.properties; servers ignore it."""
SlotFormat = Literal["java-properties", "json-string"]
"""How the location is escaped: as a value of a Java properties file, or inside double quotes (JSON, Protocol Buffers'
text format).
"""


@digest_tag("ArtifactFile")
@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """`slot`: the format of the slot in it; None if it contains none, whatever its text looks like."""

    path: str
    content: bytes
    slot: SlotFormat | None = None

    def filled(self, location: str, draft: str) -> ArtifactFile:
        """With the weights at `location`, and the draft model at `draft`."""
        if self.slot is None:
            return self
        content = self.content
        for slot, value in ((DRAFT_SLOT, _in_json(draft)), (SLOT, location)):
            text = escape_value(value) if self.slot == "java-properties" else _in_json(value)
            content = content.replace(slot.encode(), text.encode("latin-1"))
        return ArtifactFile(self.path, content)


@digest_tag("ArtifactCopy")
@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCopy:
    """A file of a LoRA adapter, which the target copies into the artifact: known by its hash, not held here."""

    path: str
    """In the artifact."""
    source: str
    """In the model's repository."""
    size: int
    oid: str
    weights: str
    """The adapter's name in a bucket."""


@digest_tag("Artifact")
@dataclass(frozen=True, slots=True)
class Artifact:
    """`files` and `copied` are sorted by path. The files contain the unfilled slots; the digest is over both."""

    files: tuple[ArtifactFile, ...]
    copied: tuple[ArtifactCopy, ...] = ()

    @property
    def digest(self) -> str:
        import hashlib  # slow to load, and `lmi validate` needs no digest

        hasher = hashlib.sha256()
        for file in self.files:
            hasher.update(f"{len(file.path)}:{file.path}:{len(file.content)}:".encode())
            hasher.update(file.content)
        for copied in self.copied:
            hasher.update(f"{len(copied.path)}:{copied.path}:{copied.size}:{copied.oid}:".encode())
        return hasher.hexdigest()

    @property
    def paths(self) -> tuple[str, ...]:
        """Of all its files."""
        return (*(file.path for file in self.files), *(file.path for file in self.copied))

    def filled(self, location: str, *, draft: str = "") -> tuple[ArtifactFile, ...]:
        """The files as the server reads them, with the weights at `location` and the draft model at `draft`."""
        return tuple(file.filled(location, draft) for file in self.files)


def filled_pairs(pairs: Pairs, location: str) -> Pairs:
    """Environment variables with the weights at `location`."""
    return tuple((name, value.replace(SLOT, location)) for name, value in pairs)


def _in_json(text: str) -> str:
    """Inside double quotes."""
    return json.dumps(text)[1:-1]
