"""The registry of the account in one region (ECR): repositories of lmi's own, and the images in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lmi_deploy.domain.observed_state import Repository
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLogin:
    """For a container CLI; lasts 12 hours. `address` begins with https://, in tests with http://."""

    address: str
    user: str
    password: Secret


class ImageRegistry(Protocol):
    def repository(self, name: str) -> Repository | None:
        """None if it does not exist."""

    def create(self, name: str, tags: Pairs) -> None:
        """Its tags cannot be moved to another image. An existing repository is left as it is."""

    def login(self) -> RegistryLogin:
        """AccessError without the permission."""

    def delete_image(self, repository: str, tag: str) -> None:
        """Done, too, if it does not exist."""

    def delete_repository(self, name: str) -> None:
        """With its images. Done, too, if it does not exist."""
