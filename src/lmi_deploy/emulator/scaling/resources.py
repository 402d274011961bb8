"""The scaled resources: the instances of an endpoint's variant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.capacities import set_capacities
from lmi_deploy.emulator.sagemaker.naming import ENDPOINT
from lmi_deploy.emulator.scaling.naming import TARGETS, refused

COUNT: Final = "sagemaker:variant:DesiredInstanceCount"
_RESOURCE: Final = re.compile(r"endpoint/(?P<endpoint>[^/]+)/variant/(?P<variant>[^/]+)")


class Variant:
    """An existing variant; ValidationException if there is none."""

    def __init__(self, context: EmulatorContext, region: str, params: Mapping[str, Any]) -> None:
        if params["ServiceNamespace"] != "sagemaker" or params["ScalableDimension"] != COUNT:
            raise refused("The emulator scales sagemaker variants' DesiredInstanceCount only.")
        parts = _RESOURCE.fullmatch(params["ResourceId"])
        row = context.table(ENDPOINT.table, region).get(parts["endpoint"]) if parts else None
        variants = ((row or {}).get("serving") or {"variants": []})["variants"]
        existing = next((one for one in variants if parts and one["name"] == parts["variant"]), None)
        if parts is None or row is None or existing is None:
            raise refused(f"SageMaker resource not found: {params['ResourceId']}")
        self._context, self._region = context, region
        self.endpoint, self.name = parts["endpoint"], parts["variant"]
        self._row: Row = row
        self._target_row: Row = existing

    @property
    def desired(self) -> int:
        return int(self._target_row["desired_count"])

    @property
    def is_settled(self) -> bool:
        """In service with the requested settings, so that it can be changed again."""
        return bool(self._row["status"] == "InService" and self._target_row["count"] == self.desired)

    @property
    def settled_at(self) -> float:
        return float(self._row["modified"])

    def scale(self, count: int) -> None:
        """ApiError if SageMaker refuses."""
        set_capacities(
            self._context, self._region, self.endpoint, {self.name: {"DesiredInstanceCount": count}}
        )


def scaled_variants(context: EmulatorContext, region: str, endpoint: str) -> set[str]:
    """The variants of an endpoint that have a scalable target."""
    found = (
        _RESOURCE.fullmatch(row["params"]["ResourceId"]) for _, row in context.table(TARGETS, region).rows()
    )
    return {match["variant"] for match in found if match and match["endpoint"] == endpoint}
