"""Resources with a tag of lmi, whichever process created them."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.sagemaker.resource_settings import Resource


class ResourceTags(Protocol):
    def of(self, deployment: str) -> tuple[Resource, ...]:
        """Everything of one deployment in the region."""

    def all(self) -> tuple[Resource, ...]:
        """Everything of lmi in the region: all resources with the tag, with any value."""
