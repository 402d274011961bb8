"""The port Dashboards on the emulator's CloudWatch."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from lmi_deploy.aws.dashboards import CloudWatchDashboards
from lmi_deploy.errors import Refused
from tests.support.emulator_process import Emulated
from tests.support.sagemaker_fixtures import Recorder

MARKER = 'Made by `lmi "x"`'
BODY = json.dumps({"widgets": [{"type": "text", "properties": {"markdown": MARKER}}]})


@pytest.fixture
def dashboards(recorder: Recorder) -> CloudWatchDashboards:
    return CloudWatchDashboards(recorder.access(), account="111122223333")


def listed(aws: Emulated) -> list[str]:
    found = aws.client("cloudwatch").list_dashboards()["DashboardEntries"]
    return [entry["DashboardName"] for entry in found]


def test_written_replaced_and_removed(aws: Emulated, dashboards: CloudWatchDashboards) -> None:
    dashboards.write("ours", BODY, marker=MARKER)
    dashboards.write("ours", BODY.replace("text", "text2"), marker=MARKER)
    assert "text2" in aws.client("cloudwatch").get_dashboard(DashboardName="ours")["DashboardBody"]
    dashboards.remove("ours", marker=MARKER)
    dashboards.remove("ours", marker=MARKER)
    assert "ours" not in listed(aws)


def test_foreign_dashboard_stays(aws: Emulated, dashboards: CloudWatchDashboards) -> None:
    aws.client("cloudwatch").put_dashboard(DashboardName="theirs", DashboardBody='{"widgets": []}')
    with pytest.raises(Refused):
        dashboards.write("theirs", BODY, marker=MARKER)
    dashboards.remove("theirs", marker=MARKER)
    assert "theirs" in listed(aws)


@pytest.mark.parametrize(("name", "body"), [("a/b", BODY), ("fine", "not JSON"), ("fine", "[]")])
def test_invalid_dashboards_are_refused(aws: Emulated, name: str, body: str) -> None:
    with pytest.raises(ClientError, match="InvalidParameterInput"):
        aws.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=body)
