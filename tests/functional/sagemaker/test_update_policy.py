"""`endpoint.update`: how an update replaces the instances; it changes nothing by itself."""

from __future__ import annotations

import pytest

from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

POLICY = "update: {policy: canary, wait: 5m, keep_old: 1h, alarms: [errors]}"


def recipe(more: str = POLICY, *, count: int = 4, options: str = "") -> str:
    return f"{RECIPE}endpoint: {{count: {count}, {more}}}\n{options}"


def test_plan_and_endpoint_follow_the_policy(app: CloudApp) -> None:
    write_recipe(RECIPE)
    app.up()
    write_recipe(recipe())
    planned = app.lmi("plan")
    assert (
        "canary by 25 %, wait 5 min 00 s after each step, keep the old instances for 1 h 00 min"
        in planned.out
    )
    assert "roll back on errors" in planned.out
    app.up()
    assert app.cloud.account_state.policies["tiny"].step_percent == 25
    assert app.lmi("plan", "--json").result["actions"] == []


def test_changed_policy_alone_changes_nothing(app: CloudApp) -> None:
    write_recipe(recipe())
    app.up()
    write_recipe(recipe("update: {policy: rolling}"))
    assert app.lmi("plan", "--json").result["actions"] == []


def test_rollback_by_hand_uses_no_policy(app: CloudApp) -> None:
    for text in (RECIPE, recipe()):
        write_recipe(text)
        app.up()
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    assert "tiny" not in app.cloud.account_state.policies


def test_role_that_may_not_read_the_alarms_is_refused_first(app: CloudApp) -> None:
    write_recipe(recipe())
    app.cloud.roles.denied.add("cloudwatch:DescribeAlarms")
    refused = app.lmi("up", "--yes")
    assert refused.code == 1
    assert (
        "cloudwatch:DescribeAlarms on arn:aws:cloudwatch:us-east-1:111122223333:alarm:errors" in refused.err
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (recipe(count=1), "policy: canary: a step is at most 50 % of the instances, and there is one"),
        (
            recipe("update: {policy: linear, step_percent: 5}"),
            "step_percent: 5 % is below SageMaker's smallest",
        ),
        (
            recipe("update: {policy: rolling, keep_old: 60}"),
            "keep_old: policy rolling ends the old instances",
        ),
        (recipe("update: {step_percent: 20}"), "step_percent: policy all-at-once has one step"),
        (recipe("update: {policy: canary, wait: 60}"), "wait: nothing is watched during the wait"),
        (
            recipe("update: {policy: canary, step_percent: 60}"),
            "step_percent: 60 is out of range, use 5 to 50",
        ),
    ],
    ids=["one instance", "small step", "rolling", "one step", "no alarms", "large step"],
)
def test_policy_that_sagemaker_refuses_is_a_mistake_of_the_recipe(
    app: CloudApp, text: str, said: str
) -> None:
    write_recipe(text)
    refused = app.lmi("validate")
    assert refused.code == 2
    assert f"endpoint.update.{said}" in refused.err + refused.out


@pytest.mark.parametrize(
    ("update", "words"),
    [
        # 1 x $1.408 that runs, 4 x $1.408 that start.
        ("", "$7.04 an hour for about 8 min 00 s, while old and new instances run"),
        # Two waits of 5 min, and the old instances an hour more.
        (POLICY, "$7.04 an hour for about 1 h 18 min, while old and new instances run"),
        ("update: {policy: linear, step_percent: 50}", "$7.04 an hour for about 8 min 00 s"),
        # Two starts, each of two instances.
        (
            "update: {policy: rolling, step_percent: 50}",
            "$4.22 an hour for about 15 min 00 s, while the old instances and 50 % of the new ones run",
        ),
    ],
)
def test_plan_of_an_update_has_the_cost_of_both_fleets(app: CloudApp, update: str, words: str) -> None:
    app.up()
    write_recipe(recipe(update))
    app.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.2
    assert f"during the update: {words}" in app.lmi("plan").out


def test_price_of_a_fleet_of_another_type_is_in_it(app: CloudApp) -> None:
    app.up()
    app.cloud.prices.hourly_of["ml.p4d.24xlarge"] = 37.0
    write_recipe(RECIPE.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.p4d.24xlarge"))
    assert "during the update: $38.41 an hour for about" in app.lmi("plan").out
    app.cloud.prices.hourly_of.clear()
    assert "during the update: an unknown price for about" in app.lmi("plan").out


def test_plan_without_an_update_has_no_such_line(app: CloudApp) -> None:
    assert "during the update" not in app.lmi("plan").out
    app.up()
    app.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.2
    assert "during the update" not in app.lmi("plan", "--set", "endpoint.tags={team: other}").out
