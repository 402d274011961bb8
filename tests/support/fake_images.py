"""A container CLI and a registry in memory."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from lmi_deploy.domain.events import Event, Line
from lmi_deploy.domain.image_build import ACCEPTED_MANIFEST, BuildContext, ImageBuild
from lmi_deploy.domain.observed_state import Repository
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.image_registry import RegistryLogin
from lmi_deploy.runtimes.container.build_context import read_context
from tests.support.fake_hosting import AccountState

ADDRESS = "https://111122223333.dkr.ecr.us-east-1.amazonaws.com"


@dataclass
class FakeRegistry:
    state: AccountState
    tags: dict[str, Pairs] = field(default_factory=dict)
    images: dict[str, dict[str, str]] = field(default_factory=dict)

    def repository(self, name: str) -> Repository | None:
        self.state.call("repository")
        if name not in self.tags:
            return None
        return Repository(tags=dict(self.tags[name]), images=dict(self.images[name]))

    def create(self, name: str, tags: Pairs) -> None:
        self.state.call("create_repository")
        self.tags.setdefault(name, tags)
        self.images.setdefault(name, {})

    def login(self) -> RegistryLogin:
        self.state.call("login")
        return RegistryLogin(address=ADDRESS, user="AWS", password=Secret("a password"))

    def delete_image(self, repository: str, tag: str) -> None:
        self.state.call("delete_image")
        self.images.get(repository, {}).pop(tag, None)

    def delete_repository(self, name: str) -> None:
        self.state.call("delete_repository")
        self.tags.pop(name, None)
        self.images.pop(name, None)


@dataclass
class FakeImageBuilder:
    """`registry` receives what is pushed; None: this machine has no network."""

    registry: FakeRegistry | None = None
    built: set[str] = field(default_factory=set)
    builds: list[str] = field(default_factory=list)
    """Every build, by the image's name."""
    why_lacking: str = ""
    manifest: str = ACCEPTED_MANIFEST
    failure: str = ""
    """The last line of a build that fails."""

    def context(self, folder: Path, dockerfile: str) -> BuildContext:
        return read_context(folder, dockerfile)

    def lacking(self) -> str:
        return self.why_lacking

    def exists(self, image: str) -> bool:
        return image in self.built

    def build(self, build: ImageBuild, image: str, *, key: str) -> Generator[Event, None, str]:
        yield Line(key=key, text="STEP 1/1: FROM scratch")
        if self.failure:
            raise DeployFailed(f"{image}: the build failed: {self.failure}", hint="correct the Dockerfile")
        self.built.add(image)
        self.builds.append(image)
        return f"{build.context.files} files"

    def push(self, image: str, name: str, login: RegistryLogin, *, key: str) -> Generator[Event, None, str]:
        repository, _, tag = name.partition(":")
        if image not in self.built or self.registry is None or repository not in self.registry.images:
            raise DeployFailed(f"{name}: the push failed: name unknown", hint="run the same command again")
        yield Line(key=key, text="Writing manifest")
        self.registry.images[repository][tag] = self.manifest
        return "pushed"
