"""Results of `lmi compile` on this machine."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.ports.environments import CacheEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOrder:
    """One run of a compile script. `identity` is derived from everything that decides its result."""

    identity: str
    script: bytes
    arguments: Pairs
    model: Path
    """The folder of the model's files."""
    python: Path
    """The interpreter with the script's packages."""
    timeout: int
    """Seconds."""
    made_by: str
    """In words."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of its environment, beside those that every script gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCompile:
    """A complete result. `files` are its content, with their sha256."""

    folder: Path
    files: tuple[FileEntry, ...]
    made_by: str

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(file.size for file in self.files)


class CompiledModels(Protocol):
    def find(self, identity: str) -> StoredCompile | None:
        """None unless it is complete."""

    def running(self, identity: str) -> bool:
        """Whether a process of this machine makes it now."""

    def make(self, order: CompileOrder, *, key: str) -> Generator[Event, None, StoredCompile]:
        """Run the script: its result, whole or not at all. A script that fails, writes nothing or takes too long is
        CompileFailed with its last lines; whatever it started has ended when this returns or raises.
        """

    def entries(self) -> tuple[CacheEntry, ...]:
        """All complete results, with their size."""

    def remove(self, identity: str) -> int:
        """Delete a result; the bytes it had. Refused while a process makes it."""

    def stop(self, identity: str) -> bool:
        """End the script that makes it now; False if none does."""
