"""SageMaker's inference components, in our own terms: models on one endpoint. The rules of `ports/hosting.py` apply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.component_settings import (
    AdapterSettings,
    ComponentSettings,
    ObservedComponent,
)
from lmi_deploy.domain.sagemaker.resource_settings import ListedEndpoint


class InferenceComponents(Protocol):
    def component(self, name: str) -> ObservedComponent | None: ...

    def listed(self, endpoint: str = "") -> Iterator[ListedEndpoint]:
        """Every inference component of an endpoint, or of the region: one request for 100 of them."""

    def create_component(self, name: str, settings: ComponentSettings, tags: Pairs) -> None:
        """NotFound if the endpoint does not exist; Conflict, too, if it takes no components now."""

    def update_component(self, name: str, settings: ComponentSettings) -> None:
        """All settings but the endpoint. SageMaker replaces the copies, and keeps the old ones if that fails. Conflict
        while it is being changed.
        """

    def create_adapter(self, endpoint: str, base: str, adapter: AdapterSettings, tags: Pairs) -> None:
        """NotFound if the endpoint or the base does not exist."""

    def update_adapter(self, base: str, adapter: AdapterSettings) -> None:
        """SageMaker replaces the adapter in every copy of its base. Conflict while it is being changed."""

    def set_copies(self, name: str, copies: int) -> None:
        """The number alone: SageMaker starts or ends only the difference. Conflict while it is being changed."""

    def delete_component(self, name: str) -> None:
        """Conflict while it is being created or updated; CloudError for a base that has adapters."""
