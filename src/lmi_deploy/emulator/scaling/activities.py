"""Scaling activities: each change of a count, its reason, and its result."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.scaling.naming import matching, name_of
from lmi_deploy.emulator.scaling.resources import Variant
from lmi_deploy.emulator.wire.errors import ApiError

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
        "params": {key: params[key] for key in ("ServiceNamespace", "ResourceId", "ScalableDimension")},
        "created": context.clock.now(),
        "count": count,
        "cause": cause,
        "out": out,
        "status": "InProgress",
        "message": f"Successfully set desired instance count to {count}. Waiting for change to be fulfilled by "
        "sagemaker.",
    }
    try:
        Variant(context, region, params).scale(count)
    except ApiError as error:
        message = f"Failed to set desired instance count to {count}. Reason: {error.message}"
        row.update(status="Failed", message=message, ended=context.clock.now())
    context.table(TABLE, region).put(str(uuid.uuid4()), row)


def settle(context: EmulatorContext, region: str) -> None:
    """Finish the activities whose change is complete."""
    for name, row in context.table(TABLE, region).rows():
        if row["status"] == "InProgress":
            _settle(context, region, name, row)


def _settle(context: EmulatorContext, region: str, name: str, row: Row) -> None:
    done = f"Successfully set desired instance count to {row['count']}. "
    try:
        variant = Variant(context, region, row["params"])
    except ApiError as error:
        row.update(status="Failed", message=error.message, ended=context.clock.now())
    else:
        if not variant.is_settled:
            return
        if variant.desired == row["count"]:
            status, message = "Successful", f"{done}Change successfully fulfilled by sagemaker."
        else:
            status, message = "Overridden", f"{done}It was set to {variant.desired} since."
        row.update(status=status, message=message, ended=variant.settled_at)
    context.table(TABLE, region).put(name, row)


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
