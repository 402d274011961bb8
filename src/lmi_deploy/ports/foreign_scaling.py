"""The automatic scaling of a variant that another tool made."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignScaling


class ForeignScalingApi(Protocol):
    def read(self, endpoint: str, variant: str) -> ForeignScaling | None:
        """None if the variant is no scalable target."""

    def remove(self, endpoint: str, variant: str) -> None:
        """Every policy with its alarms, then the target; absent is no error."""
