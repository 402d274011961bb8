"""EventBridge Scheduler: one-time schedules that call an operation of SageMaker (a universal target).

Sources: its API reference (botocore's model; ConflictException, ResourceNotFoundException), its user guide: "Schedule
types" (a one-time schedule runs within 60 seconds of its time), "Using universal targets", "Deleting a schedule"
(ActionAfterCompletion), and "Execution role" for the words of a role that cannot be assumed. Only the default schedule
group, `at(...)` in UTC and SageMaker's DeleteEndpoint are served.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.hosting.resource_tasks import BackgroundTask
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.endpoints import delete_endpoint
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT, arn_of, page
from lmi_deploy.emulator.wire.errors import ApiError

TABLE: Final = "schedules"
SERVICE: Final = "scheduler.amazonaws.com"
DELETE_ENDPOINT: Final = ":scheduler:::aws-sdk:sagemaker:deleteEndpoint"
_AT: Final = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_DEFAULTS: Final = {"State": "ENABLED", "ActionAfterCompletion": "NONE", "ScheduleExpressionTimezone": "UTC"}
_RETRIES: Final = {"MaximumEventAgeInSeconds": 86_400, "MaximumRetryAttempts": 185}
_INTERVAL: Final = 15.0
"""Seconds of the emulated clock between two looks."""
_log = logging.getLogger(__name__)


def create_schedule(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    name = request.params["Name"]
    if context.table(TABLE, request.region).get(name) is not None:
        raise ApiError("ConflictException", f"Schedule {name} already exists.", status=409)
    return _put(context, request, created=context.clock.now())


def update_schedule(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    """Replaces every field: one that is not given gets its default."""
    return _put(context, request, created=_found(context, request)["created"])


def get_schedule(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    row = _found(context, request)
    return {
        **row["params"],
        "Arn": _arn(context, request.region, request.params["Name"]),
        "GroupName": "default",
        "CreationDate": row["created"],
        "LastModificationDate": row["modified"],
    }


def list_schedules(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    prefix, state = request.params.get("NamePrefix", ""), request.params.get("State")
    rows = [
        (name, row)
        for name, row in context.table(TABLE, request.region).rows()
        if name.startswith(prefix) and state in (None, row["params"]["State"])
    ]
    found, token = page(rows, request.params, order="Ascending")
    summaries = [
        {
            **{key: row["params"][key] for key in ("Name", "State")},
            "Arn": _arn(context, request.region, name),
            "GroupName": "default",
            "CreationDate": row["created"],
            "LastModificationDate": row["modified"],
            "Target": {"Arn": row["params"]["Target"]["Arn"]},
        }
        for name, row in found
    ]
    return {"Schedules": summaries, "NextToken": token or None}


def delete_schedule(context: EmulatorContext, request: ApiRequest) -> None:
    _found(context, request)
    context.table(TABLE, request.region).drop(request.params["Name"])


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateSchedule": create_schedule,
    "UpdateSchedule": update_schedule,
    "GetSchedule": get_schedule,
    "ListSchedules": list_schedules,
    "DeleteSchedule": delete_schedule,
}


def _arn(context: EmulatorContext, region: str, name: str) -> str:
    return context.arn("scheduler", region, f"schedule/default/{name}")


def _found(context: EmulatorContext, request: ApiRequest) -> Row:
    name = request.params["Name"]
    row = context.table(TABLE, request.region).get(name)
    if row is None:
        raise ApiError("ResourceNotFoundException", f"Schedule {name} does not exist.", status=404)
    return row


def _put(context: EmulatorContext, request: ApiRequest, *, created: float) -> Mapping[str, Any]:
    params = {key: value for key, value in request.params.items() if key != "ClientToken"}
    name, target = params["Name"], params["Target"]
    if params.get("GroupName", "default") != "default":
        message = f"Schedule group {params['GroupName']} does not exist."
        raise ApiError("ResourceNotFoundException", message, status=404)
    if _moment(params["ScheduleExpression"]) is None:
        raise ApiError("ValidationException", f"Invalid Schedule Expression {params['ScheduleExpression']}.")
    if not target["Arn"].endswith(DELETE_ENDPOINT):
        raise ApiError("NotImplemented", f"The emulator has no target {target['Arn']}.", status=501)
    if not context.roles.trusts(target["RoleArn"], SERVICE):
        raise ApiError(
            "ValidationException",
            "The execution role you provide must allow AWS EventBridge Scheduler to assume the role.",
        )
    params["Target"] = {"RetryPolicy": _RETRIES, **target}
    row = {"params": {**_DEFAULTS, **params}, "created": created, "modified": context.clock.now()}
    context.table(TABLE, request.region).put(name, row)
    return {"ScheduleArn": _arn(context, request.region, name)}


def _moment(expression: str) -> float | None:
    match = _AT.fullmatch(expression)
    return datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp() if match else None


class ScheduleLoop(BackgroundTask):
    """Invokes the targets of the schedules that are due, on the emulated clock, without making it faster."""

    name = "schedules"

    async def _run(self) -> None:
        while True:
            await self._context.clock.reach(self._context.clock.now() + _INTERVAL)
            self.run_due()

    def run_due(self) -> None:
        """One try for each schedule that is due; a refused one is tried again, for the age that its policy allows."""
        for region in self._context.store.regions(TABLE):
            for name, row in self._context.table(TABLE, region).rows():
                params, now = row["params"], self._context.clock.now()
                due = _moment(params["ScheduleExpression"])
                if due is None or due > now or params["State"] != "ENABLED" or row.get("completed"):
                    continue
                age = params["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"]
                if self._invoked(region, params["Target"]) or now - due > age:
                    self._complete(region, name, row)

    def _invoked(self, region: str, target: Mapping[str, Any]) -> bool:
        """Calls the operation with the permissions of the role."""
        context, request = self._context, json.loads(target["Input"])
        endpoint, role = str(request["EndpointName"]), target["RoleArn"]
        arn = arn_of(context, region, ENDPOINT, endpoint)
        if not context.roles.allows(role, "sagemaker:DeleteEndpoint", arn):
            _log.warning("schedule: %s may not sagemaker:DeleteEndpoint on %s", role, arn)
            return False
        try:
            delete_endpoint(context, ApiRequest("DeleteEndpoint", {"EndpointName": endpoint}, region, ""))
        except ApiError as error:
            _log.warning("schedule: DeleteEndpoint %s: %s", endpoint, error.message)
            return False
        return True

    def _complete(self, region: str, name: str, row: Row) -> None:
        if row["params"]["ActionAfterCompletion"] == "DELETE":
            self._context.table(TABLE, region).drop(name)
        else:
            self._context.table(TABLE, region).put(name, {**row, "completed": True})
