"""The container CLI of this machine (docker, podman, finch), as far as it builds and pushes images."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.image_build import BuildContext, ImageBuild
from lmi_deploy.ports.image_registry import RegistryLogin


class ImageBuilder(Protocol):
    def context(self, folder: Path, dockerfile: str) -> BuildContext:
        """What an image is built from. Unresolvable, with the path, for a file that cannot be read or copied."""

    def lacking(self) -> str:
        """Why this machine cannot build images; empty if it can."""

    def exists(self, image: str) -> bool:
        """Whether this machine has the image; false without a container CLI."""

    def build(self, build: ImageBuild, image: str, *, key: str) -> Generator[Event, None, str]:
        """DeployFailed if the folder has changed since, with the last lines if the build fails, or for an image of
        another platform.
        """

    def push(self, image: str, name: str, login: RegistryLogin, *, key: str) -> Generator[Event, None, str]:
        """`name` is `repository:tag` in that registry. DeployFailed with the last lines."""
