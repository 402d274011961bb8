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
