"""Inference components as scalable targets: their copies.

Sources: Application Auto Scaling API reference, RegisterScalableTarget (`inference-component/NAME`,
`sagemaker:inference-component:DesiredCopyCount`); SageMaker developer guide, "Define a scaling policy" (the metrics
InvocationsPerCopy and ConcurrentRequestsPerCopy). Read in November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.components import set_copies
from lmi_deploy.emulator.sagemaker.resources import INFERENCE_COMPONENT
from lmi_deploy.emulator.wire.errors import refused

COPIES: Final = "sagemaker:inference-component:DesiredCopyCount"
_RESOURCE: Final = re.compile(r"inference-component/(?P<name>[^/]+)")


class Copies:
    """Of an existing component; ValidationException if there is none."""

    def __init__(self, context: EmulatorContext, region: str, params: Mapping[str, Any]) -> None:
        parts = _RESOURCE.fullmatch(params["ResourceId"])
        row = context.table(INFERENCE_COMPONENT.table, region).get(parts["name"]) if parts else None
        if parts is None or row is None:
            raise refused(f"SageMaker resource not found: {params['ResourceId']}")
        self._context, self._region, self._name = context, region, parts["name"]
        self._row: Row = row

    @property
    def desired(self) -> int:
        return int(self._row["desired"])

    @property
    def is_settled(self) -> bool:
        return bool(self._row["status"] == "InService" and self._row["copies"] == self.desired)

    @property
    def settled_at(self) -> float:
        return float(self._row["modified"])

    def scale(self, count: int) -> None:
        """ApiError if SageMaker refuses."""
        set_copies(self._context, self._region, self._name, count)


def component_of(resource: str) -> str:
    """Its name, of a ResourceId; empty for a variant's."""
    parts = _RESOURCE.fullmatch(resource)
    return parts["name"] if parts else ""
