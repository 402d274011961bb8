"""The number of instances, controlled by target tracking."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.sagemaker.resource_settings import Scaling


class AutoscalingApi(Protocol):
    def scaling(self, endpoint: str) -> Scaling | None:
        """The registered scaling of our variant of this endpoint."""

    def scale(self, endpoint: str, scaling: Scaling) -> None:
        """Register the target and its policy, or change them."""

    def remove(self, endpoint: str) -> None:
        """The policy with its alarms, then the target; absent is no error."""
