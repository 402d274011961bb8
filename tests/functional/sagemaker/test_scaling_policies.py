"""Autoscaling by policies and schedules: in step with the recipe, drift of each field, price, `lmi scale`, `down`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.recipe_scaling_keys import ScheduledBounds
from tests.functional.sagemaker.test_scale import actions, deployed
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

POLICIES = """\
endpoint:
  autoscaling:
    min: 1
    max: 3
    concurrent_requests_per_model: 8
    metric: {namespace: Chat, name: Queue, target: 10}
    scale_in_cooldown: 10m
    scheduled:
      day: {schedule: cron(0 8 ? * MON-FRI *), timezone: Europe/Berlin, min: 2, max: 6}
"""


def changes(app: CloudApp) -> dict[str, tuple[str, str]]:
    found = app.lmi("plan", "--json").result["changes"]
    return {each["field"]: (each["before"], each["after"]) for each in found}


def test_policies_and_schedules_are_set_shown_and_removed(app: CloudApp) -> None:
    deployed(app, RECIPE + POLICIES)
    live = app.cloud.scalers.targets["tiny"]
    assert (live.concurrency, live.invocations, live.scale_in_cooldown) == (8.0, 0, 600)
    assert live.metric is not None
    assert live.metric.dimensions == ()
    assert app.lmi("plan", "--exit-code").code == 0
    status = app.lmi("status", "tiny")
    assert status.code == 0
    assert (
        "1 to 3 instances, 8 concurrent requests each, Average of Chat Queue at 10, day: cron(0 8"
        in status.out
    )
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud.scalers.targets == {}


def test_price_is_that_of_all_times(app: CloudApp) -> None:
    write_recipe(RECIPE + POLICIES)
    assert "$1.41 to $8.45 an hour (1 to 6 x" in app.lmi("plan").out
    result = app.lmi("up", "--yes", "--max-hourly", "5")
    assert (result.code, "may cost $1.41 to $8.45" in result.err) == (5, True)


def test_metric_of_sagemaker_is_that_of_the_endpoint(app: CloudApp) -> None:
    metric = "metric: {namespace: /aws/sagemaker/Endpoints, name: GPUUtilization, target: 70}"
    deployed(app, RECIPE + f"endpoint: {{autoscaling: {{min: 1, max: 2, {metric}}}}}\n")
    live = app.cloud.scalers.targets["tiny"].metric
    assert live is not None
    assert live.dimensions == (("EndpointName", "tiny"), ("VariantName", "main"))


@pytest.mark.parametrize(
    ("changed", "field", "before"),
    [
        ({"least": 2}, "", ""),
        ({"concurrency": 5.0}, "scaling.concurrent_requests", "5"),
        ({"metric": None}, "scaling.metric", ""),
        ({"scale_in": False}, "scaling.scale_in", "false"),
        ({"scale_out_cooldown": 30}, "scaling.cooldown", "in 600 s, out 30 s"),
        ({"invocations": 4}, "scaling", "1 to 3 instances, 4 invocations a minute each"),
        ({"scheduled": ()}, "scaling.scheduled.day", ""),
        (
            {"scheduled": (ScheduledBounds(name="day", schedule="cron(0 8 ? * * *)", max=6),)},
            "scaling.scheduled.day",
            "cron(0 8 ? * * *) UTC: max 6",
        ),
    ],
)
def test_change_by_hand_is_drift_in_its_field(
    app: CloudApp, changed: dict[str, object], field: str, before: str
) -> None:
    """Bounds are what a scheduled action sets."""
    deployed(app, RECIPE + POLICIES)
    desired = app.cloud.scalers.targets["tiny"]
    app.cloud.scalers.targets["tiny"] = replace(desired, **changed)  # type: ignore[arg-type]
    status = app.lmi("status", "tiny")
    if not field:
        assert (status.code, app.lmi("plan", "--exit-code").code) == (0, 0)
        return
    assert status.code == 4
    assert f"its autoscaling was changed, not by lmi ({field}: " in status.out
    assert actions(app.lmi("plan", "--json")) == ["set-scaling"]
    found = changes(app)
    assert [*found] == [field]
    assert found[field][0] == before
    app.up()
    assert app.cloud.scalers.targets["tiny"] == desired
    assert app.lmi("status", "tiny").code == 0


def test_autoscaling_removed_by_hand_is_drift(app: CloudApp) -> None:
    deployed(app, RECIPE + POLICIES)
    app.cloud.scalers.targets.clear()
    status = app.lmi("status", "tiny")
    assert (status.code, "its autoscaling was removed, not by lmi" in status.out) == (4, True)
    assert actions(app.lmi("plan", "--json")) == ["set-scaling"]
    app.up()
    assert app.lmi("status", "tiny").code == 0


def test_changed_recipe_changes_only_the_scaling(app: CloudApp) -> None:
    deployed(app, RECIPE + POLICIES)
    write_recipe(RECIPE + POLICIES.replace("max: 3", "max: 4").replace("min: 2, max: 6", "max: 5"))
    assert changes(app) == {
        "scaling": ("1 to 3 instances", "1 to 4 instances"),
        "scaling.scheduled.day": (
            "cron(0 8 ? * MON-FRI *) Europe/Berlin: min 2, max 6",
            "cron(0 8 ? * MON-FRI *) Europe/Berlin: max 5",
        ),
    }
    app.up()
    assert app.cloud.scalers.targets["tiny"].most == 4


def test_lmi_scale_keeps_to_the_bounds_of_now(app: CloudApp) -> None:
    deployed(app, RECIPE + POLICIES)
    app.cloud.scalers.targets["tiny"] = replace(app.cloud.scalers.targets["tiny"], least=2, most=6)
    assert app.lmi("scale", "tiny", "6", "--yes").code == 0
    result = app.lmi("scale", "tiny", "1", "--yes")
    assert (result.code, "autoscaling keeps it at 2 to 6 instances" in result.err) == (2, True)


def test_dashboard_without_a_target_of_invocations_has_no_line_of_it(app: CloudApp) -> None:
    deployed(app, RECIPE + POLICIES)
    assert "target of autoscaling" not in app.lmi("dashboard", "tiny", "--print").out
