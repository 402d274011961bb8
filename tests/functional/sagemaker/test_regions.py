"""`endpoint.regions`: the next region where one has no capacity or quota, with the weights copied between buckets."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from lmi_deploy.errors import AccessError
from tests.support.cloud_app import RECIPE, CloudApp
from tests.support.fake_cloud import FakeCloud
from tests.support.fake_hosting import NO_CAPACITY
from tests.support.fake_store import FakeStore

WEST, EAST = "us-west-2", "us-east-1"
REGIONS = f"{RECIPE}endpoint: {{regions: [{EAST}, {WEST}]}}\n"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CloudApp:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(REGIONS)
    return CloudApp(tmp_path)


def full(cloud: FakeCloud) -> None:
    """No instance of the recipe's types can be had there."""
    cloud.account_state.failures.reasons |= dict.fromkeys(("ml.g5.xlarge", "ml.g6.xlarge"), NO_CAPACITY)


def serving(cloud: FakeCloud) -> list[str]:
    return [name for name, one in cloud.account_state.endpoints.items() if one.observed.status == "InService"]


def is_clear(cloud: FakeCloud) -> bool:
    state = cloud.account_state
    return not (state.endpoints or state.configs or state.models)


def stored(app: CloudApp, region: str, prefix: str) -> list[str]:
    account = app.cloud.account_state.caller.account
    store = app.cloud.stores.get(f"lmi-{account}-{region}-an")
    return [one.key for one in store.list(prefix)] if store else []


def test_next_region_is_used_without_capacity_and_gets_the_weights_from_the_first_bucket(
    app: CloudApp,
) -> None:
    full(app.cloud)
    west = app.cloud.region(WEST)
    result = app.up("--json")
    assert (result.result["region"], result.result["changed"]) == (WEST, True)
    assert is_clear(app.cloud)
    assert serving(west) == ["tiny"]
    assert f"trying the recipe's next region, {WEST}" in result.out
    assert f"from the bucket in {EAST}" in result.out
    assert stored(app, WEST, "weights/") == stored(app, EAST, "weights/") != []
    assert stored(app, EAST, "deployments/tiny/record") == []


def test_where_it_serves_it_stays_and_is_found(app: CloudApp) -> None:
    full(app.cloud)
    app.up()
    app.cloud.account_state.failures.reasons.clear()
    assert "nothing to do" in app.up().err
    assert f'"region": "{WEST}"' in app.lmi("status", "tiny.yaml", "--json").out
    assert app.lmi("invoke", "tiny.yaml", "hello").out == "OK\n"
    west = app.cloud.region(WEST)
    full(west)
    changed = app.lmi("up", "--yes", "--set", "container.environment.A=b")
    assert changed.code == 1
    assert "still serves" in changed.err
    assert is_clear(app.cloud)
    assert app.lmi("down", "tiny.yaml", "--yes").code == 0
    assert is_clear(west)


def test_deployment_is_found_without_the_knowledge_of_this_machine(app: CloudApp, tmp_path: Path) -> None:
    full(app.cloud)
    app.up()
    other = CloudApp(tmp_path / "other")
    other.cloud = app.cloud
    assert f'"region": "{WEST}"' in other.lmi("status", "tiny.yaml", "--json").out
    assert "nothing to do" in other.up().err


def test_region_without_quota_is_left_out_before_anything_is_created(app: CloudApp) -> None:
    app.cloud.account_state.quotas |= {"ml.g5.xlarge": 0.0, "ml.g6.xlarge": 0.0}
    plan = app.lmi("plan", "tiny.yaml")
    assert plan.code == 0, plan.err
    assert f"not in {EAST}: " in plan.err + plan.out
    assert "is 0" in plan.err + plan.out
    app.up()
    assert is_clear(app.cloud)
    assert serving(app.cloud.region(WEST)) == ["tiny"]
    assert stored(app, EAST, "") == []


def test_plan_says_what_the_next_region_costs(app: CloudApp) -> None:
    shown = app.lmi("plan", "tiny.yaml")
    said = " ".join((shown.out + shown.err).split())
    assert f"without capacity in {EAST}, lmi tries {WEST} (1 x ml.g5.xlarge: $1.41 an hour)" in said


def test_last_region_without_capacity_fails_with_all_of_them_clear(app: CloudApp) -> None:
    full(app.cloud)
    full(app.cloud.region(WEST))
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "InsufficientInstanceCapacity" in result.err
    assert is_clear(app.cloud)
    assert app.lmi("down", "tiny.yaml", "--yes").code == 0
    assert is_clear(app.cloud.region(WEST))


def test_next_region_that_costs_more_than_the_limit_is_refused(app: CloudApp) -> None:
    full(app.cloud)
    west = app.cloud.region(WEST)
    west.prices.hourly_of |= {"ml.g5.xlarge": 9.0, "ml.g6.xlarge": 9.0}
    app.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.1
    result = app.lmi("up", "--yes", "--max-hourly", "2")
    assert result.code != 0
    assert "9" in result.err
    assert is_clear(app.cloud)
    assert is_clear(west)


def test_weights_come_from_their_source_if_the_copy_is_not_allowed(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> NoReturn:
        raise AccessError("s3:GetObject was denied", hint="allow it")

    full(app.cloud)
    monkeypatch.setattr(FakeStore, "copy", denied)
    result = app.up()
    assert f"not copied from {EAST}: s3:GetObject was denied; getting them from the source" in result.err
    assert serving(app.cloud.region(WEST)) == ["tiny"]
    assert stored(app, WEST, "weights/") == stored(app, EAST, "weights/") != []


def test_interrupted_move_to_the_next_region_is_continued(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    full(app.cloud)
    with monkeypatch.context() as patched:
        patched.setattr(FakeStore, "copy", interrupted)
        assert app.lmi("up", "--yes").code == 130
    assert is_clear(app.cloud)
    result = app.up()
    assert "trying the recipe's next region" not in result.err
    assert serving(app.cloud.region(WEST)) == ["tiny"]


@pytest.mark.parametrize("first", [EAST, WEST])
def test_region_begins(app: CloudApp, first: str) -> None:
    app.up("--set", f"endpoint.region={first}")
    assert serving(app.cloud.region(first)) == ["tiny"]


def test_deployment_in_two_regions_is_refused(app: CloudApp) -> None:
    for region in (EAST, WEST):
        Path("tiny.yaml").write_text(f"{RECIPE}endpoint: {{region: {region}}}\n")
        app.up()
    Path("tiny.yaml").write_text(REGIONS)
    result = app.lmi("up", "--yes")
    assert result.code == 5
    assert f"tiny exists in {EAST} and {WEST}" in result.err
    assert f"lmi down tiny --region {WEST}" in result.err


def test_experiment_stays_in_its_region(app: CloudApp) -> None:
    """A cell that moved would be measured, paid for and deleted in another place than its plan says."""
    bench = "bench: {variants: {base: {}}, concurrency: 1, requests: 5, prompt: Hi}\n"
    Path("tiny.yaml").write_text(REGIONS + bench)
    full(app.cloud)
    west = app.cloud.region(WEST)
    result = app.lmi("bench", "experiment", "tiny.yaml", "--yes")
    assert result.code == 1
    assert NO_CAPACITY in result.out + result.err
    assert is_clear(app.cloud)
    assert (is_clear(west), stored(app, WEST, "")) == (True, [])


def test_down_from_another_machine_says_in_which_region_it_is(app: CloudApp, tmp_path: Path) -> None:
    full(app.cloud)
    west = app.cloud.region(WEST)
    app.up()
    other = CloudApp(tmp_path / "another-machine", clock=app.clock)
    other.cloud = app.cloud
    result = other.lmi("down", "tiny", "--yes")
    assert (result.code, serving(west)) == (5, ["tiny"])
    assert f"not found in account 111122223333, {EAST}, but it exists in {WEST}" in result.err
    assert f"`lmi down tiny --region {WEST}`" in result.err
    assert other.lmi("down", "tiny", "--region", WEST, "--yes").code == 0
    gone = other.lmi("down", "tiny", "--yes")
    assert gone.code == 0
    assert f"tiny: not found in account 111122223333, {EAST}, nor in 1 other region" in gone.err


def test_mistyped_name_gets_the_nearest_one_of_any_region(app: CloudApp) -> None:
    full(app.cloud)
    app.up()
    result = app.lmi("down", "tinny", "--yes")
    assert result.code == 0
    assert "did you mean tiny?" in result.err


def test_gc_of_all_regions_ends_what_has_expired_in_any(app: CloudApp) -> None:
    Path("tiny.yaml").write_text(f"{REGIONS}ttl: 1h\n")
    full(app.cloud)
    west = app.cloud.region(WEST)
    app.up()
    app.clock.sleep(7200)
    assert app.lmi("gc", "--yes", "--region", EAST).code == 0
    assert serving(west) == ["tiny"]
    result = app.lmi("gc", "--yes", "--all-regions", "--json")
    assert (result.code, result.result["ended"], is_clear(west)) == (0, 1, True)
    assert app.lmi("gc", "--all-regions", "--region", EAST).code == 2
