"""CloudWatch's dashboards: stored, one list for all regions.

Source: CloudWatch's API reference, PutDashboard, GetDashboard, DeleteDashboards, ListDashboards ("All dashboards in
your account are global"); names: at most 255 of A-Z, a-z, 0-9, "-" and "_"; errors by botocore's model of the service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.wire.errors import ApiError

TABLE: Final = "dashboards"
_GLOBAL: Final = ""
_MOST_WIDGETS: Final = 500


def put_dashboard(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    name, body = request.params["DashboardName"], request.params["DashboardBody"]
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,255}", name):
        raise ApiError("InvalidParameterInput", f"The value {name} for parameter DashboardName is invalid.")
    _check(body)
    context.table(TABLE, _GLOBAL).put(name, {"body": body, "changed": context.clock.now()})
    return {"DashboardValidationMessages": []}


def get_dashboard(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    name = request.params["DashboardName"]
    row = context.table(TABLE, _GLOBAL).get(name)
    if row is None:
        raise _not_found(name)
    return {"DashboardArn": _arn(context, name), "DashboardBody": row["body"], "DashboardName": name}


def list_dashboards(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    prefix = request.params.get("DashboardNamePrefix", "")
    return {
        "DashboardEntries": [
            {
                "DashboardName": name,
                "DashboardArn": _arn(context, name),
                "LastModified": row["changed"],
                "Size": len(row["body"]),
            }
            for name, row in sorted(context.table(TABLE, _GLOBAL).rows())
            if name.startswith(prefix)
        ]
    }


def delete_dashboards(context: EmulatorContext, request: ApiRequest) -> None:
    table = context.table(TABLE, _GLOBAL)
    for name in request.params["DashboardNames"]:
        if table.get(name) is None:
            raise _not_found(name)
    for name in request.params["DashboardNames"]:
        table.drop(name)


def _check(body: str) -> None:
    try:
        widgets = json.loads(body)["widgets"]
    except (ValueError, KeyError, TypeError):
        raise ApiError(
            "InvalidParameterInput", "The field DashboardBody must be a valid JSON object"
        ) from None
    if len(widgets) > _MOST_WIDGETS:
        raise ApiError("InvalidParameterInput", f"There are more than {_MOST_WIDGETS} widgets.")


def _not_found(name: str) -> ApiError:
    return ApiError("ResourceNotFound", f"Dashboard {name} does not exist", status=404)


def _arn(context: EmulatorContext, name: str) -> str:
    return context.arn("cloudwatch", _GLOBAL, f"dashboard/{name}")


OPERATIONS: Final[Mapping[str, Operation]] = {
    "PutDashboard": put_dashboard,
    "GetDashboard": get_dashboard,
    "ListDashboards": list_dashboards,
    "DeleteDashboards": delete_dashboards,
}
