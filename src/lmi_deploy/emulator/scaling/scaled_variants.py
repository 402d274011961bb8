"""Scaled variants: their names, their instance counts, and the activities that change the counts."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT, INFERENCE_COMPONENT
from lmi_deploy.emulator.sagemaker.variant_capacities import set_capacities
from lmi_deploy.emulator.scaling.scaled_components import COPIES, Copies, component_of
from lmi_deploy.emulator.wire.errors import ApiError, refused

TARGETS: Final = "scalable-targets"
POLICIES: Final = "scaling-policies"
NAMED: Final = ("ServiceNamespace", "ResourceId", "ScalableDimension")


def name_of(params: Mapping[str, Any]) -> str:
    """A target's name; the name of its policy starts with it."""
    return ":".join(params[key] for key in NAMED)


def matching(context: EmulatorContext, request: ApiRequest, table: str) -> Iterator[tuple[str, Row]]:
    """The records that the request names; all records if it names none."""
    for name, row in sorted(context.table(table, request.region).rows()):
        if all(request.params.get(key) in (None, row["params"][key]) for key in NAMED):
            yield name, row


def missing(what: str, params: Mapping[str, Any]) -> ApiError:
    named = "service namespace: {}, resource ID: {}, scalable dimension: {}".format(
        *(params[k] for k in NAMED)
    )
    last = f", policy name: {params['PolicyName']}" if "PolicyName" in params else ""
    return ApiError("ObjectNotFoundException", f"No {what} found for {named}{last}")


COUNT: Final = "sagemaker:variant:DesiredInstanceCount"
_RESOURCE: Final = re.compile(r"endpoint/(?P<endpoint>[^/]+)/variant/(?P<variant>[^/]+)")


class Variant:
    """An existing variant; ValidationException if there is none."""

    def __init__(self, context: EmulatorContext, region: str, params: Mapping[str, Any]) -> None:
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


def scaled(context: EmulatorContext, region: str, params: Mapping[str, Any]) -> Variant | Copies:
    """An existing target; ValidationException if there is none."""
    if params["ServiceNamespace"] == "sagemaker" and params["ScalableDimension"] == COUNT:
        return Variant(context, region, params)
    if params["ServiceNamespace"] == "sagemaker" and params["ScalableDimension"] == COPIES:
        return Copies(context, region, params)
    raise refused(
        "The emulator scales sagemaker variants' DesiredInstanceCount and inference components' DesiredCopyCount only."
    )


def scaled_variants(context: EmulatorContext, region: str, endpoint: str) -> set[str]:
    """The variants of an endpoint that have a scalable target."""
    found = (
        _RESOURCE.fullmatch(row["params"]["ResourceId"]) for _, row in context.table(TARGETS, region).rows()
    )
    return {match["variant"] for match in found if match and match["endpoint"] == endpoint}


def shrinking(context: EmulatorContext) -> Iterator[tuple[str, str]]:
    """Region and name of the components that target tracking may take copies of: while they are idle, their metrics
    have values.
    """
    for region in context.store.regions(TARGETS):
        policies = [row for _, row in context.table(POLICIES, region).rows() if "Low" in row["alarms"]]
        tracked = {row["params"]["ResourceId"] for row in policies}
        for _, target in context.table(TARGETS, region).rows():
            component = component_of(target["params"]["ResourceId"])
            row = context.table(INFERENCE_COMPONENT.table, region).get(component) if component else None
            may_shrink = row is not None and row["copies"] > target["params"]["MinCapacity"]
            if may_shrink and target["params"]["ResourceId"] in tracked:
                yield region, component


TABLE: Final = "scaling-activities"
PAGE: Final = 50


def scale(
    context: EmulatorContext,
    region: str,
    params: Mapping[str, Any],
    *,
    count: int,
    cause: str,
    out: bool | None = None,
) -> None:
    """Set the count, and keep that it was done; a refusal of SageMaker's is a failed activity."""
    row: Row = {
        "params": {key: params[key] for key in NAMED},
        "created": context.clock.now(),
        "count": count,
        "cause": cause,
        "out": out,
        "status": "InProgress",
        "message": f"Successfully set desired instance count to {count}. Waiting for change to be fulfilled by "
        "sagemaker.",
    }
    try:
        scaled(context, region, params).scale(count)
    except ApiError as error:
        message = f"Failed to set desired instance count to {count}. Reason: {error.message}"
        row.update(status="Failed", message=message, ended=context.clock.now())
    context.table(TABLE, region).put(str(uuid.uuid4()), row)


def clamp(
    context: EmulatorContext, region: str, variant: Variant | Copies, params: Row, *, why: str = ""
) -> None:
    """A count outside of the new limits is moved inside at once."""
    least, most = params["MinCapacity"], params["MaxCapacity"]
    if variant.is_settled and variant.desired < least:
        cause = why or f"minimum capacity was set to {least}"
        scale(context, region, params, count=least, cause=cause)
    elif variant.is_settled and variant.desired > most:
        cause = why or f"maximum capacity was set to {most}"
        scale(context, region, params, count=most, cause=cause)


def settle(context: EmulatorContext, region: str) -> None:
    """Finish the activities whose change is complete."""
    for name, row in context.table(TABLE, region).rows():
        if row["status"] == "InProgress" and _is_finished(context, region, row):
            context.table(TABLE, region).put(name, row)


def _is_finished(context: EmulatorContext, region: str, row: Row) -> bool:
    """Whether it ended; its result is then in the record."""
    done = f"Successfully set desired instance count to {row['count']}. "
    try:
        variant = scaled(context, region, row["params"])
    except ApiError as error:
        row.update(status="Failed", message=error.message, ended=context.clock.now())
    else:
        if not variant.is_settled:
            return False
        if variant.desired == row["count"]:
            status, message = "Successful", f"{done}Change successfully fulfilled by sagemaker."
        else:
            status, message = "Overridden", f"{done}It was set to {variant.desired} since."
        row.update(status=status, message=message, ended=variant.settled_at)
    return True


def last(context: EmulatorContext, region: str, params: Mapping[str, Any], *, out: bool) -> float:
    """When a policy last scaled this out, or in; 0.0 when it never did."""
    moments = (
        float(row.get("ended") or row["created"])
        for _, row in context.table(TABLE, region).rows()
        if name_of(row["params"]) == name_of(params) and row.get("out") is out
    )
    return max(moments, default=0.0)


def describe_activities(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    settle(context, request.region)
    found = [
        {
            **row["params"],
            "ActivityId": name,
            "Description": f"Setting desired instance count to {row['count']}.",
            "Cause": row["cause"],
            "StartTime": row["created"],
            "EndTime": row.get("ended"),
            "StatusCode": row["status"],
            "StatusMessage": row["message"],
        }
        for name, row in matching(context, request, TABLE)
    ]
    found.sort(key=lambda description: description["StartTime"], reverse=True)
    start = int(request.params.get("NextToken", "0"))
    stop = start + int(request.params.get("MaxResults", PAGE))
    return {"ScalingActivities": found[start:stop], "NextToken": str(stop) if stop < len(found) else None}
