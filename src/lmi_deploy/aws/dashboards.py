"""The port Dashboards. A dashboard is ours by its name and a text in its body: one that exists takes no tags.

Source: CloudWatch's API reference, PutDashboard (it replaces the whole body; tags only at its creation), GetDashboard,
DeleteDashboards. Dashboards belong to the account and have no region.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.errors import NotFound, Refused


class CloudWatchDashboards:
    def __init__(self, access: AwsConnection, *, account: str) -> None:
        self._api = Service(access, "cloudwatch")
        self._account = account

    def write(self, name: str, body: str, *, marker: str) -> None:
        found = self._body(name)
        if found is not None and not _has(found, marker):
            raise Refused(
                f"dashboard {name}: it exists, and lmi did not make it",
                hint="it was not changed. Delete it in CloudWatch, or use `lmi dashboard --print` and another name",
            )
        self._about("put_dashboard", name, DashboardName=name, DashboardBody=body)

    def remove(self, name: str, *, marker: str) -> None:
        if _has(self._body(name) or "", marker):
            with suppress(NotFound):  # a first request, whose response was lost, has deleted it
                self._about("delete_dashboards", name, DashboardNames=[name])

    def _body(self, name: str) -> str | None:
        try:
            return str(self._about("get_dashboard", name, DashboardName=name)["DashboardBody"])
        except NotFound:
            return None

    def _about(self, call: str, name: str, **given: Any) -> dict[str, Any]:
        resource = f"arn:{self._api.partition}:cloudwatch::{self._account}:dashboard/{name}"
        return self._api(call, f"dashboard {name}", resource=resource, **given)


def _has(body: str, marker: str) -> bool:
    """The console writes the JSON again: with other spaces, and maybe with other escapes."""
    return json.dumps(marker)[1:-1] in body or marker in body
