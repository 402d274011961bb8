"""PutScheduledAction and related operations, and the bounds that they set at their time.

Sources: Application Auto Scaling API reference, PutScheduledAction ("If you don't specify start and end times, the old
values are deleted"), ScheduledAction, ScalableTargetAction; its user guide, "Quotas" (200 for a scalable target),
"Scheduled scaling" (the current capacity moves inside of the new bounds). AWS does not document whether an action for
one moment stays when it is over: here it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lmi_deploy.domain.recipe_scaling_keys import MOST_SCHEDULED
from lmi_deploy.domain.schedule_expression import is_due, schedule_error
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.scaling.scaled_variants import (
    TARGETS,
    clamp,
    matching,
    missing,
    name_of,
    scaled,
)
from lmi_deploy.emulator.wire.errors import ApiError, refused

TABLE: Final = "scheduled-actions"


def _action_name(params: Mapping[str, Any]) -> str:
    return f"{name_of(params)}:{params['ScheduledActionName']}"


def put_action(context: EmulatorContext, request: ApiRequest) -> None:
    params, name = request.params, _action_name(request.params)
    if context.table(TARGETS, request.region).get(name_of(params)) is None:
        raise ApiError(
            "ObjectNotFoundException",
            "No scalable target registered for service namespace: {ServiceNamespace}, resource ID: {ResourceId}, "
            "scalable dimension: {ScalableDimension}".format(**params),
        )
    before = context.table(TABLE, request.region).get(name)
    kept = {
        key: value
        for key, value in {**(before or {}).get("params", {}), **params}.items()
        if key not in ("StartTime", "EndTime") or key in params
    }
    _check(kept)
    if before is None and _count(context, request) >= MOST_SCHEDULED:
        raise ApiError(
            "LimitExceededException",
            f"Scheduled action limit exceeded. You can have at most {MOST_SCHEDULED} scheduled actions per target.",
        )
    path = f"{digest({'name': name})[:22]}:resource/sagemaker/{params['ResourceId']}"
    arn = context.arn(
        "autoscaling", request.region, f"scheduledAction:{path}:{params['ScheduledActionName']}"
    )
    created = (before or {}).get("created", context.clock.now())
    context.table(TABLE, request.region).put(name, {"arn": arn, "created": created, "params": kept})


def _check(params: Mapping[str, Any]) -> None:
    """The words are ours, but for the last ones."""
    action = params.get("ScalableTargetAction") or {}
    if "Schedule" not in params:
        raise refused("Schedule is required when a new scheduled action is created.")
    if error := schedule_error(params["Schedule"]):
        raise refused(f"Invalid schedule expression {params['Schedule']}: {error}")
    try:
        _zone(params)
    except ZoneInfoNotFoundError as exc:
        raise refused(f"Invalid timezone: {exc}") from exc
    if not action:
        raise refused("ScalableTargetAction must have MinCapacity, MaxCapacity or both.")
    if action.get("MinCapacity", 0) > action.get("MaxCapacity", float("inf")):
        raise refused("Maximum capacity cannot be less than minimum capacity")


def _count(context: EmulatorContext, request: ApiRequest) -> int:
    rows = context.table(TABLE, request.region).rows()
    return sum(name_of(row["params"]) == name_of(request.params) for _, row in rows)


def describe_actions(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    names = request.params.get("ScheduledActionNames")
    return {
        "ScheduledActions": [
            {**row["params"], "ScheduledActionARN": row["arn"], "CreationTime": row["created"]}
            for _, row in matching(context, request, TABLE)
            if names is None or row["params"]["ScheduledActionName"] in names
        ]
    }


def delete_action(context: EmulatorContext, request: ApiRequest) -> None:
    if context.table(TABLE, request.region).get(_action_name(request.params)) is None:
        raise missing("scheduled action", request.params)
    context.table(TABLE, request.region).drop(_action_name(request.params))


def drop_actions(context: EmulatorContext, region: str, target: str) -> None:
    """Of a target that is deregistered."""
    for name, row in list(context.table(TABLE, region).rows()):
        if name_of(row["params"]) == target:
            context.table(TABLE, region).drop(name)


def has_actions(context: EmulatorContext) -> bool:
    return any(True for region in context.store.regions(TABLE) for _ in context.table(TABLE, region).rows())


def run_due(context: EmulatorContext, *, after: float, until: float) -> None:
    """Set the bounds of the actions that have a time in (after, until]."""
    for region in context.store.regions(TABLE):
        for _, row in list(context.table(TABLE, region).rows()):
            if _is_due(row, after, until):
                _act(context, region, row)


def _zone(params: Mapping[str, Any]) -> tzinfo:
    name = params.get("Timezone", "UTC")
    return UTC if name == "UTC" else ZoneInfo(name)


def _is_due(row: Row, after: float, until: float) -> bool:
    params = row["params"]
    if until < float(params.get("StartTime", 0)) or until > float(params.get("EndTime", float("inf"))):
        return False
    return is_due(
        params["Schedule"],
        _zone(row["params"]),
        after=datetime.fromtimestamp(after, UTC),
        until=datetime.fromtimestamp(until, UTC),
        created=datetime.fromtimestamp(row["created"], UTC),
    )


def _act(context: EmulatorContext, region: str, row: Row) -> None:
    target = context.table(TARGETS, region).get(name_of(row["params"]))
    if target is None:
        return
    bounds = {**target["params"], **row["params"]["ScalableTargetAction"]}
    if bounds["MinCapacity"] > bounds["MaxCapacity"]:
        return  # it failed: the other bound was changed since
    context.table(TARGETS, region).put(name_of(row["params"]), {**target, "params": bounds})
    try:
        variant = scaled(context, region, bounds)
    except ApiError:
        return  # it is being deleted
    clamp(
        context,
        region,
        variant,
        bounds,
        why=f"scheduled action name {row['params']['ScheduledActionName']} was triggered",
    )


OPERATIONS: Final[Mapping[str, Operation]] = {
    "PutScheduledAction": put_action,
    "DescribeScheduledActions": describe_actions,
    "DeleteScheduledAction": delete_action,
}
