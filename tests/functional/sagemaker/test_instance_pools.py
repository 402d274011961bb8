"""`endpoint.instance_pools`: one endpoint of several instance types, among which SageMaker chooses."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import EndpointConfigSettings, PoolSettings
from tests.functional.sagemaker.test_many import rows
from tests.functional.sagemaker.test_regions import WEST, full, serving
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.fake_hosting import NO_CAPACITY

POOLED = f"{RECIPE}endpoint: {{instance_pools: {{provision_timeout: 10m}}}}\n"
FIRST, SECOND = "ml.g5.xlarge", "ml.g6.xlarge"


@pytest.fixture
def app(app: CloudApp) -> CloudApp:
    write_recipe(POOLED)
    app.cloud.prices.hourly_of[SECOND] = 1.127
    return app


def lacking(app: CloudApp, *types: str) -> None:
    app.cloud.account_state.failures.reasons |= dict.fromkeys(types, NO_CAPACITY)


def settings(app: CloudApp) -> EndpointConfigSettings:
    found = app.observe().config
    assert found is not None
    return found.settings


def test_plan_shows_every_type_and_both_ends_of_the_cost(app: CloudApp) -> None:
    shown = " ".join(app.lmi("plan").out.split())
    assert f"$1.13 to $1.41 an hour (1 x {FIRST} or {SECOND}" in shown
    assert "SageMaker takes the first type with capacity, within 10 min" in shown
    assert "alternatives" not in shown


def test_up_is_one_endpoint_that_falls_back_by_itself(app: CloudApp) -> None:
    lacking(app, FIRST)
    result = app.up("--json")
    assert result.result["changed"] is True
    assert settings(app).instance_pools == PoolSettings(others=(SECOND,), provision_timeout=600)
    assert app.cloud.account_state.calls.count("create_endpoint") == 1
    assert "trying the recipe's next instance type" not in result.out
    status = app.lmi("status", "tiny")
    assert status.code == 0, status.out
    assert f"1 of 1 instances (1 x {SECOND})" in status.out
    assert f"$1.13 an hour (1 x {SECOND}" in status.out
    assert "nothing to do" in app.up().err


def test_without_any_capacity_it_fails_and_down_clears_it(app: CloudApp) -> None:
    lacking(app, FIRST, SECOND)
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "InsufficientInstanceCapacity" in result.err
    assert app.cloud.account_state.calls.count("create_endpoint") == 1
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud_resources() == []


def test_pools_on_and_off_are_updates(app: CloudApp) -> None:
    write_recipe()
    app.up()
    write_recipe(POOLED)
    plan = app.lmi("plan")
    assert "instance_pools" in plan.out
    app.up()
    assert settings(app).types == (FIRST, SECOND)
    assert "nothing to do" in app.up().err
    write_recipe()
    app.up()
    assert settings(app).types == (FIRST,)


def test_pools_of_a_scaled_endpoint_are_changed_without_its_scaling(app: CloudApp) -> None:
    """SageMaker changes no instance type under a scalable target."""
    scaled = "autoscaling: {min: 1, max: 3, invocations_per_instance: 50}"
    write_recipe(f"{RECIPE}endpoint: {{{scaled}}}\n")
    app.up()
    write_recipe(f"{RECIPE}endpoint: {{instance_pools: {{}}, {scaled}}}\n")
    result = app.up("--json")
    steps = [line["key"].partition(":")[0] for line in result.lines if line["event"] == "finished"]
    assert steps.index("RemoveScaling") < steps.index("UpdateEndpoint") < steps.index("SetScaling")
    back = app.lmi("rollback", "tiny", "--yes", "--json")
    assert back.code == 0, back.err
    steps = [line["key"].partition(":")[0] for line in back.lines if line["event"] == "finished"]
    assert steps.index("RemoveScaling") < steps.index("UpdateEndpoint") < steps.index("SetScaling")


def test_limit_is_compared_with_the_type_that_costs_most(app: CloudApp) -> None:
    refused = app.lmi("up", "--yes", "--max-hourly", "1.20")
    assert refused.code == 5, refused.err
    assert "may cost $1.13 to $1.41 an hour" in refused.err
    assert "create_endpoint" not in app.cloud.account_state.calls
    assert app.lmi("up", "--yes", "--max-hourly", "1.41").code == 0


def test_unknown_price_of_one_type_is_named(app: CloudApp) -> None:
    del app.cloud.prices.hourly_of[SECOND]
    assert f"unknown: no source has the price of {SECOND}" in app.lmi("plan").out
    refused = app.lmi("up", "--yes", "--max-hourly", "9")
    assert f"the price of {SECOND} is unknown" in refused.err


def test_more_instances_may_have_any_type(app: CloudApp) -> None:
    app.up()
    result = app.lmi("scale", "tiny", "3", "--yes")
    assert result.code == 0, result.err
    assert f"cost then: at most $4.22 an hour (3 x {FIRST} or {SECOND}" in result.err
    assert f"3 of 3 instances (3 x {FIRST})" in app.lmi("status", "tiny").out


def test_month_counts_the_type_that_costs_most(app: CloudApp) -> None:
    lacking(app, FIRST)
    app.up()
    app.clock.sleep(3600)
    result = app.lmi("cost", "--json")
    assert (rows(result)["tiny"]["instance"], rows(result)["tiny"]["cost"]) == (FIRST, 1.53)
    assert any("instance pools" in text for text in result.result["not_seen"])


def test_type_without_quota_is_a_notice_while_another_has_one(app: CloudApp) -> None:
    app.cloud.account_state.quotas[SECOND] = 0.0
    plan = app.lmi("plan")
    assert plan.code == 0, plan.err
    assert f'the quota "{SECOND} for endpoint usage" in us-east-1 is 0' in plan.err
    refused = app.lmi("up", "--yes")
    assert (refused.code, f'"{SECOND} for endpoint usage"' in refused.err) == (1, True)


def test_next_region_follows_when_no_pool_has_capacity(app: CloudApp) -> None:
    write_recipe(f"{RECIPE}endpoint: {{regions: [us-east-1, {WEST}], instance_pools: {{}}}}\n")
    full(app.cloud)
    west = app.cloud.region(WEST)
    result = app.up("--json")
    assert result.result["region"] == WEST
    assert serving(west) == ["tiny"]


def test_export_names_the_key_that_a_stack_does_not_express(app: CloudApp) -> None:
    result = app.lmi("export", "--format", "terraform")
    assert (result.code, "endpoint.instance_pools: `lmi export` cannot express it yet" in result.err) == (
        5,
        True,
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            "instance_type: ml.g5.xlarge",
            "instance_type: names one type, and endpoint.instance_pools needs several",
        ),
        ("endpoint.share: team", "endpoint.share: cannot be combined with endpoint.instance_pools"),
        ("endpoint.instance_pools.provision_timeout: 1m", "endpoint.instance_pools.provision_timeout"),
        ("compile: {script: compile.py}", "compile: cannot be combined with endpoint.instance_pools"),
    ],
)
def test_keys_that_do_not_go_with_pools_are_refused(app: CloudApp, keys: str, said: str) -> None:
    result = app.lmi("validate", "tiny.yaml", "--set", keys.replace(": ", "=", 1))
    assert result.code == 2
    assert said in " ".join((result.out + result.err).split())
