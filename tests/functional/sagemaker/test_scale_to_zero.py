"""An asynchronous deployment without instances: planned, priced, scaled by hand, waited for."""

from __future__ import annotations

from tests.functional.sagemaker.test_scale import actions, deployed
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

QUEUED = """\
endpoint:
  asynchronous: {}
  autoscaling: {min: 0, max: 2, backlog_per_instance: 5}
"""


def test_deployment_starts_with_one_instance_and_gets_the_step_from_zero(app: CloudApp) -> None:
    deployed(app, RECIPE + QUEUED)
    (config,) = app.cloud.account_state.configs.values()
    assert config.settings.count == 1
    live = app.cloud.scalers.targets["tiny"]
    assert (live.least, live.most, live.backlog) == (0, 2, 5.0)
    (step,) = live.steps
    assert (step.name, step.metric, step.adjustments) == (
        "from-zero",
        "HasBacklogWithoutCapacity",
        (("0", "+1"),),
    )
    assert step.dimensions == (("EndpointName", "tiny"),)
    assert app.lmi("plan", "--exit-code").code == 0
    assert "5 queued requests each" in app.lmi("status", "tiny").out


def test_price_begins_at_nothing(app: CloudApp) -> None:
    write_recipe(RECIPE + QUEUED)
    assert "$0.00 to $2.82 an hour (0 to 2 x" in app.lmi("plan").out


def test_without_instances_it_is_in_step_and_costs_nothing(app: CloudApp) -> None:
    deployed(app, RECIPE + QUEUED)
    assert app.lmi("scale", "tiny", "0", "--yes").code == 0
    status = app.lmi("status", "tiny")
    assert (status.code, "InService, 0 of 0 instances" in status.out) == (0, True)
    assert "$0.00 an hour (0 x ml.g5.xlarge" in status.out
    assert app.lmi("plan", "--exit-code").code == 0


def test_zero_by_hand_needs_autoscaling_that_goes_there(app: CloudApp) -> None:
    deployed(app, RECIPE + QUEUED.replace("min: 0", "min: 1"))
    assert app.cloud.scalers.targets["tiny"].steps == ()
    result = app.lmi("scale", "tiny", "0", "--yes")
    assert (result.code, "lmi down tiny" in result.err) == (2, True)


def test_higher_min_removes_the_step(app: CloudApp) -> None:
    deployed(app, RECIPE + QUEUED)
    write_recipe(RECIPE + QUEUED.replace("min: 0", "min: 1"))
    plan = app.lmi("plan", "--json")
    assert actions(plan)[0] == "set-scaling"
    changed = {each["field"]: each["after"] for each in plan.result["changes"]}
    assert changed == {"scaling": "1 to 2 instances", "scaling.steps.from-zero": ""}


def test_waiting_for_an_answer_says_that_no_instance_runs(app: CloudApp) -> None:
    deployed(app, RECIPE + QUEUED)
    assert app.lmi("scale", "tiny", "0", "--yes").code == 0
    app.cloud.account_state.queued = True
    result = app.lmi("invoke", "tiny", "--async", "hello", "--json")
    assert result.code == 1
    notes = [line.get("note", "") for line in result.lines]
    assert any("no instance runs, and the queue starts one" in note for note in notes)


def test_removed_autoscaling_starts_the_recipes_instances_again(app: CloudApp) -> None:
    deployed(app, RECIPE + QUEUED)
    assert app.lmi("scale", "tiny", "0", "--yes").code == 0
    write_recipe(RECIPE + "endpoint: {asynchronous: {}}\n")
    assert actions(app.lmi("plan", "--json"))[:2] == ["remove-scaling", "set-instance-count"]
    app.up()
    assert app.cloud.account_state.endpoints["tiny"].observed.count == 1
