"""`lmi dashboard`: the body that PutDashboard takes, for the parts that the deployment has."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

from lmi_deploy.errors import CloudError
from tests.support.cloud_app import RECIPE, CloudApp
from tests.support.local_app import MODEL

VARIANT = ["EndpointName", "tiny", "VariantName", "main"]


def body(app: CloudApp) -> dict[str, Any]:
    result = app.lmi("dashboard", "tiny", "--print")
    assert result.code == 0, result.err
    return dict(json.loads(result.out))


def charts(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        one["properties"]["title"]: one["properties"] for one in found["widgets"] if one["type"] == "metric"
    }


def test_widgets_fill_the_grid_without_overlap_and_have_a_region(app: CloudApp) -> None:
    app.up()
    widgets = body(app)["widgets"]
    for one in widgets:
        assert 0 <= one["x"] <= 24 - one["width"]
    for first, second in combinations(widgets, 2):
        apart = first["x"] + first["width"] <= second["x"] or second["x"] + second["width"] <= first["x"]
        assert apart or first["y"] + first["height"] <= second["y"]
    assert {one["properties"]["region"] for one in widgets if one["type"] == "metric"} == {"us-east-1"}


def test_metrics_are_those_of_the_endpoint(app: CloudApp) -> None:
    app.up()
    found = charts(body(app))
    assert ["AWS/SageMaker", "Invocation5XXErrors", *VARIANT] in found["Requests a minute"]["metrics"]
    expression, hidden = found["Time in the container (ms)"]["metrics"][-2:]
    assert expression == [{"expression": "p99_us / 1000", "id": "p99_ms", "label": "p99"}]
    assert hidden == [
        "AWS/SageMaker",
        "ModelLatency",
        *VARIANT,
        {"id": "p99_us", "stat": "p99", "visible": False},
    ]
    gpu = found["GPU (%; each GPU adds up to 100)"]["metrics"]
    assert ["/aws/sagemaker/Endpoints", "GPUMemoryUtilization", *VARIANT] in gpu
    assert "Queue" not in found


def test_target_of_autoscaling_is_a_line(app: CloudApp) -> None:
    scaled = "endpoint: {autoscaling: {min: 1, max: 2, invocations_per_instance: 120}}\n"
    Path("lmi.yaml").write_text(RECIPE + scaled)
    app.up("lmi.yaml")
    (line,) = charts(body(app))["Requests a minute and instance"]["annotations"]["horizontal"]
    assert line["value"] == 120


def test_asynchronous_endpoint_has_its_queue(app: CloudApp) -> None:
    Path("lmi.yaml").write_text(RECIPE + "endpoint: {asynchronous: {}}\n")
    app.up("lmi.yaml")
    queue = charts(body(app))["Queue"]["metrics"]
    assert queue[0] == ["AWS/SageMaker", "ApproximateBacklogSize", "EndpointName", "tiny"]


def test_dashboard_is_written_with_its_price_and_down_deletes_it(app: CloudApp) -> None:
    app.up()
    shown = app.lmi("dashboard", "tiny")
    assert "wrote the dashboard lmi-tiny-us-east-1: $3 a month" in shown.err
    assert shown.out.strip().endswith("region=us-east-1#dashboards:name=lmi-tiny-us-east-1")
    assert json.loads(app.cloud.dashboards.found["lmi-tiny-us-east-1"]) == body(app)
    down = app.lmi("down", "tiny", "--yes")
    assert "remove the CloudWatch dashboard of tiny" in down.err
    assert (down.code, app.cloud.dashboards.found) == (0, {})


def test_print_writes_nothing(app: CloudApp) -> None:
    app.up()
    (event,) = app.lmi("dashboard", "tiny", "--print", "--json").lines
    assert (event["dashboard_name"], event["body"]) == ("lmi-tiny-us-east-1", body(app))
    assert app.cloud.dashboards.found == {}
    assert "dashboard" not in app.lmi("down", "tiny", "--yes").err


def test_up_keeps_the_tag_of_the_dashboard(app: CloudApp) -> None:
    app.up()
    app.lmi("dashboard", "tiny")
    Path("lmi.yaml").write_text(RECIPE + "endpoint: {tags: {team: search}}\n")
    app.up("lmi.yaml")
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud.dashboards.found == {}


def test_dashboard_that_cannot_be_deleted_keeps_no_endpoint_alive(app: CloudApp) -> None:
    app.up()
    app.lmi("dashboard", "tiny")
    denied = CloudError("DeleteDashboards: not authorized", hint="ask for the right")
    app.cloud.account_state.failures.before["remove_dashboard"] = [denied]
    down = app.lmi("down", "tiny", "--yes")
    assert "not done: remove the CloudWatch dashboard of tiny: DeleteDashboards: not authorized" in down.err
    assert (down.code, app.cloud.account_state.endpoints) == (1, {})
    again = app.lmi("down", "tiny", "--yes")
    assert "remove the CloudWatch dashboard of tiny" in again.err
    assert (again.code, app.cloud.dashboards.found) == (0, {})
    assert app.lmi("ls").out == ""


def test_up_deletes_the_dashboard_that_the_down_before_could_not(app: CloudApp) -> None:
    app.up()
    app.lmi("dashboard", "tiny")
    denied = CloudError("DeleteDashboards: not authorized", hint="ask for the right")
    app.cloud.account_state.failures.before["remove_dashboard"] = [denied]
    assert app.lmi("down", "tiny", "--yes").code == 1
    app.up()
    assert app.cloud.dashboards.found == {}


def test_foreign_dashboard_stays(app: CloudApp) -> None:
    app.up()
    app.cloud.dashboards.found["lmi-tiny-us-east-1"] = "{}"
    assert app.lmi("dashboard", "tiny").code == 5
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud.dashboards.found == {"lmi-tiny-us-east-1": "{}"}


def test_no_dashboard_without_an_endpoint(app: CloudApp) -> None:
    result = app.lmi("dashboard", "tiny", "--target", "sagemaker")
    assert (result.code, result.out) == (1, "")
    assert "tiny: no such deployment is running" in result.err


def test_deployment_on_this_machine_has_none(app: CloudApp) -> None:
    Path("lmi.yaml").write_text(
        f"name: tiny\nmodel_id: {MODEL}\nengine: accelerate\nendpoint: {{target: local}}\n"
    )
    app.up("lmi.yaml")
    result = app.lmi("dashboard", "tiny", "--target", "local")
    assert (result.code, result.out) == (2, "")
    assert "which CloudWatch does not measure" in result.err
