"""Python environments for workers, and DJL's Python engine: created once and cached."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.environment_setup import PLAIN, EnvironmentSetup
from lmi_deploy.domain.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """An entry of a cache on this machine; `size` in bytes, `used` says whether a deployment here needs it."""

    kind: str
    name: str
    path: Path
    size: int
    note: str = ""


class Environments(Protocol):
    def ready(self, environment: str) -> bool:
        """Whether the environment exists and is complete."""

    def python(self, environment: str) -> Path:
        """Its interpreter."""

    def require_space(
        self, environment: str, packages: tuple[str, ...], requirements: str, setup: EnvironmentSetup = PLAIN
    ) -> None:
        """Before a plan is agreed to: DeployFailed if the disk cannot hold even the smallest build of it."""

    def build(
        self,
        environment: str,
        packages: tuple[str, ...],
        requirements: str,
        setup: EnvironmentSetup = PLAIN,
        *,
        key: str,
    ) -> Generator[Event, None, str]:
        """Make it, whole or not at all; a failed install is DeployFailed with the installer's own words."""

    def engine_ready(self, version: str) -> bool:
        """Whether DJL's Python engine of this version is unpacked here."""

    def engine(self, version: str) -> Path:
        """The folder of djl_python_engine.py."""

    def install_engine(self, version: str, *, key: str) -> Generator[Event, None, str]:
        """Fetch it by its Maven coordinates, check its sha256, unpack it."""

    def entries(self) -> tuple[CacheEntry, ...]:
        """All cache entries, with their size."""

    def remove(self, name: str) -> int:
        """Delete one entry and return the freed bytes. NotFound if there is none of this name."""
