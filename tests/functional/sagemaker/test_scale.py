"""`lmi scale`: the number of instances, its price, the bounds of autoscaling, and what `plan` and `status` say then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.errors import CloudError
from tests.support.cloud_app import RECIPE, CloudApp, while_waiting, write_recipe
from tests.support.crash_scenarios import SCALED
from tests.support.fake_hosting import NO_CAPACITY
from tests.support.local_app import Ran

SCALE = ("scale", "tiny", "3", "--yes")


def deployed(app: CloudApp, recipe: str = RECIPE) -> CloudApp:
    write_recipe(recipe)
    app.up()
    return app


def count(app: CloudApp) -> int:
    return app.cloud.account_state.endpoints["tiny"].observed.count


def actions(result: Ran) -> list[str]:
    return [action["action"] for action in result.result["actions"]]


def test_count_is_set_and_waited_for_with_its_price_before_and_after(app: CloudApp) -> None:
    deployed(app)
    result = app.lmi(*SCALE)
    assert (result.code, count(app)) == (0, 3), result.err
    assert "cost now: $1.41 an hour (1 x ml.g5.xlarge" in result.err
    assert "cost then: $4.22 an hour (3 x ml.g5.xlarge" in result.err
    assert "count: 1 -> 3" in result.err
    assert result.out.strip() == "3"
    assert "update_endpoint" not in app.cloud.account_state.calls


def test_json_has_counts_prices_and_the_bounds_of_autoscaling(app: CloudApp) -> None:
    deployed(app, SCALED)
    result = app.lmi(*SCALE, "--json").result
    assert (result["count_before"], result["count"], result["instance"]) == (1, 3, "ml.g5.xlarge")
    assert (result["hourly_before"], result["currency"]) == (1.408, "USD")
    assert result["hourly"] == pytest.approx(3 * 1.408)
    assert result["autoscaling"] == {"min": 1, "max": 3}


def test_same_count_changes_nothing(app: CloudApp) -> None:
    deployed(app)
    result = app.lmi("scale", "tiny", "1")
    assert (result.code, "has 1 instance already" in result.err) == (0, True)
    assert "set_instance_count" not in app.cloud.account_state.calls


def test_without_a_yes_nothing_is_changed(app: CloudApp) -> None:
    deployed(app)
    result = app.lmi("scale", "tiny", "2")
    assert (result.code, "--yes" in result.err, count(app)) == (2, True, 1)


def test_zero_says_what_it_needs(app: CloudApp) -> None:
    deployed(app)
    none = app.lmi("scale", "tiny", "0", "--yes")
    assert (none.code, count(app)) == (2, 1)
    assert (
        "next: set at least 1, or run `lmi down tiny --region us-east-1`, which ends the cost; zero instances need "
        "endpoint.asynchronous, and endpoint.autoscaling with min: 0 and backlog_per_instance"
    ) in none.err


def test_other_count_is_drift_and_the_next_up_sets_that_of_the_recipe(app: CloudApp) -> None:
    deployed(app)
    assert app.lmi(*SCALE).code == 0
    status = app.lmi("status", "tiny")
    assert status.code == 4
    assert "it has 3 instances (`lmi scale`, or another tool); the recipe of the last `lmi up` says 1" in (
        status.out + status.err
    )
    plan = app.lmi("plan", "--json")
    assert actions(plan) == ["set-instance-count"]
    assert plan.result["changes"] == [{"field": "count", "before": "3", "after": "1"}]
    app.up()
    assert count(app) == 1
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("plan", "--exit-code").code == 0


def test_recipe_with_the_new_count_says_what_runs(app: CloudApp) -> None:
    """The endpoint config contains the number: SageMaker replaces the instances once."""
    deployed(app)
    assert app.lmi(*SCALE).code == 0
    write_recipe(RECIPE + "endpoint: {count: 4}\n")
    assert {"field": "count", "before": "3", "after": "4"} in app.lmi("plan", "--json").result["changes"]
    app.up()
    assert (count(app), app.lmi("status", "tiny").code) == (4, 0)


def test_count_of_an_autoscaled_deployment_is_no_drift(app: CloudApp) -> None:
    deployed(app, SCALED)
    result = app.lmi("scale", "tiny", "2", "--yes")
    assert "autoscaling stays on (1 to 3 instances" in result.err
    assert (count(app), app.cloud.scalers.targets["tiny"].most) == (2, 3)
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("plan", "--exit-code").code == 0


@pytest.mark.parametrize("outside", ["4", "100"])
def test_count_outside_of_autoscaling_is_refused(app: CloudApp, outside: str) -> None:
    deployed(app, SCALED)
    result = app.lmi("scale", "tiny", outside, "--yes")
    assert (result.code, count(app)) == (2, 1)
    assert f"autoscaling keeps it at 1 to 3 instances, and would undo {outside}" in result.err


def test_count_of_autoscaling_that_lmi_did_not_set_up_is_no_drift(app: CloudApp) -> None:
    deployed(app)
    app.cloud.cloud().hosting.set_instance_count("tiny", 2)
    app.clock.sleep(1000)
    app.cloud.scalers.targets["tiny"] = Scaling(least=1, most=2, invocations=0)
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("plan", "--exit-code").code == 0
    assert "autoscaling keeps it at 1 to 2" in app.lmi(*SCALE).err
    del app.cloud.scalers.targets["tiny"]
    assert app.lmi("status", "tiny").code == 4


def test_removed_autoscaling_leaves_the_recipes_count(app: CloudApp) -> None:
    deployed(app, SCALED)
    assert app.lmi(*SCALE).code == 0
    write_recipe(RECIPE)
    assert actions(app.lmi("plan", "--json"))[:2] == ["remove-scaling", "set-instance-count"]
    app.up()
    assert (count(app), app.cloud.scalers.targets) == (1, {})
    assert app.lmi("plan", "--exit-code").code == 0


@pytest.mark.parametrize("few", ["0", "-2"])
def test_no_instances_are_refused(app: CloudApp, few: str) -> None:
    deployed(app)
    result = app.lmi("scale", "--yes", "--", "tiny", few)
    assert (result.code, "lmi down tiny" in result.err, count(app)) == (2, True, 1)


def test_more_than_the_price_limit_is_refused(app: CloudApp) -> None:
    deployed(app)
    result = app.lmi(*SCALE, "--max-hourly", "3")
    assert (result.code, count(app)) == (5, 1)
    assert "would cost $4.22 an hour" in result.err
    assert app.lmi(*SCALE, "--max-hourly", "5").code == 0
    app.cloud.prices.hourly_of.clear()
    assert "no source has the price" in app.lmi("scale", "tiny", "4", "--yes", "--max-hourly", "9").err
    result = app.lmi("scale", "tiny", "4", "--yes", "--json")
    assert (result.code, result.result["hourly"]) == (0, None)


def test_instances_that_cannot_be_had_leave_what_serves(app: CloudApp) -> None:
    deployed(app)
    app.cloud.account_state.failures.reasons["more instances"] = NO_CAPACITY
    result = app.lmi(*SCALE)
    assert (result.code, count(app)) == (1, 1)
    assert "it did not get 3 instances; 1 instance serves as before: Unable to provision" in result.err
    assert app.lmi("status", "tiny").code == 0


def test_other_number_that_autoscaling_set_meanwhile_is_said(app: CloudApp) -> None:
    deployed(app, SCALED)

    def scale_to_two() -> None:
        change = app.cloud.account_state.endpoints["tiny"]
        if change.then is not None:
            change.then = replace(change.then, count=2, desired_count=2)

    while_waiting(app, scale_to_two)
    result = app.lmi(*SCALE)
    assert (result.code, count(app)) == (1, 2)
    assert (
        "to get 3 instances, but something else changed the number while lmi waited: 2 instances"
        in result.err
    )


def test_overdue_change_is_reported_and_waited_for_again(app: CloudApp) -> None:
    deployed(app)
    app.cloud.account_state.startup = 5000.0
    result = app.lmi(*SCALE)
    assert (result.code, count(app)) == (1, 1)
    assert "min is still Updating: 1 instance, 3 requested" in result.err
    assert (app.lmi(*SCALE).code, count(app)) == (0, 3)


def test_quota_is_reported_and_nothing_changes(app: CloudApp) -> None:
    deployed(app)
    app.cloud.account_state.quotas["ml.g5.xlarge"] = 2
    result = app.lmi(*SCALE)
    assert (result.code, "quota" in result.err, count(app)) == (1, True, 1)


def test_lost_reply_is_continued_by_the_same_command(app: CloudApp) -> None:
    deployed(app)
    app.cloud.account_state.failures.lost.append("set_instance_count")
    result = app.lmi(*SCALE)
    assert (result.code, "next: " in result.err) == (1, True)
    again = app.lmi(*SCALE)
    assert (again.code, count(app)) == (0, 3), again.err
    assert app.cloud.account_state.calls.count("set_instance_count") == 1
    record = app.depot().records.read("tiny")
    assert record is not None
    assert record.intents == ()


def test_interrupted_before_its_request_nothing_is_changed(app: CloudApp) -> None:
    deployed(app)
    app.cloud.account_state.failures.before["set_instance_count"] = [CloudError("no", hint="again")]
    assert app.lmi(*SCALE).code == 1
    assert count(app) == 1
    assert app.lmi(*SCALE).code == 0


def test_deployment_that_does_not_exist_or_is_not_ours_is_refused(app: CloudApp) -> None:
    assert app.lmi(*SCALE).code == 1
    deployed(app)
    state = app.cloud.account_state
    state.tags[state.arn("endpoint", "tiny")] = (("lmi:deployment", "theirs"),)
    result = app.lmi(*SCALE)
    assert (result.code, "its tag lmi:deployment says theirs" in result.err, count(app)) == (5, True, 1)


def test_unfinished_up_is_completed_first(app: CloudApp) -> None:
    write_recipe()
    assert app.lmi("up", "--yes", "--detach").code == 0
    result = app.lmi(*SCALE)
    assert (result.code, "`lmi up` did not finish" in result.err) == (5, True)


def test_local_deployment_has_no_instances(app: CloudApp) -> None:
    write_recipe(RECIPE.replace("instance_type: [ml.g5.xlarge, ml.g6.xlarge]", "endpoint: {target: local}"))
    app.up()
    result = app.lmi(*SCALE)
    assert (result.code, "target local runs one model server" in result.err) == (2, True)
