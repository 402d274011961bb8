"""A number of instances or copies that Application Auto Scaling controls."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling


class AutoscalingApi(Protocol):
    """`name` is an endpoint's, whose variant `main` is meant, or an inference component's."""

    def scaling(self, name: str, of: ScalableKind = "variant") -> Scaling | None:
        """The registered bounds, with the policies and scheduled actions of lmi."""

    def scale(self, name: str, scaling: Scaling, of: ScalableKind = "variant") -> None:
        """Register the target, its policies and its scheduled actions, or change them; those of lmi that `scaling`
        does not have are deleted.
        """

    def remove(self, name: str, of: ScalableKind = "variant") -> None:
        """The policies with their alarms, then the target with its scheduled actions; absent is no error."""
