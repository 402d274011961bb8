"""What carries a tag of ours, wherever it came from."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.sagemaker.settings import Resource


class ResourceTags(Protocol):
    def of(self, deployment: str) -> tuple[Resource, ...]:
        """Everything of one deployment in the region."""

    def all(self) -> tuple[Resource, ...]:
        """Everything of ours in the region: all that carries the tag, whatever its value."""
