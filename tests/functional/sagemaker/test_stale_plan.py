"""Only the confirmed plan is applied: a concurrent change between the plan and the lock makes it stale, and
nothing is changed without confirmation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.ports.lock import Lock
from lmi_deploy.workflows.dependencies import Dependencies
from tests.functional.sagemaker.test_shared_endpoint import GPUS
from tests.functional.sagemaker.test_shared_endpoint import write as write_on_shared_endpoint
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.crash_scenarios import CHANGED, SCALED
from tests.support.fake_components import FakeComponents
from tests.support.local_app import RECIPE as LOCAL

OTHER = RECIPE + "options: {dtype: bf16}\n"
UP, DOWN = ("up", "tiny.yaml", "--yes"), ("down", "tiny", "--yes")


@dataclass(frozen=True)
class LateChange:
    """A lock that is taken only after the concurrent changes of others."""

    lock: Lock
    meanwhile: Callable[[], None]

    def hold(self, name: str) -> AbstractContextManager[None]:
        self.meanwhile()
        return self.lock.hold(name)

    def holder(self, name: str) -> str:
        return self.lock.holder(name)

    def unlock(self, name: str, lock_id: str, *, force: bool = False) -> str:
        return self.lock.unlock(name, lock_id, force=force)

    def sweep(self, name: str) -> None:
        self.lock.sweep(name)


@dataclass
class SharedApp(CloudApp):
    """Two users of one account. `others` runs before the first user gets the lock."""

    others: list[Callable[[], None]] = field(default_factory=list)

    def deps(self) -> Dependencies:
        plain = super().deps()
        if not self.others:
            return plain
        meanwhile = self.others.pop()

        def late(ref: DeploymentRef) -> Lock:
            return LateChange(plain.lock(ref), meanwhile)

        return replace(plain, lock=late)

    def meanwhile(self, *commands: tuple[str, ...], recipe: str = RECIPE) -> None:
        def do() -> None:
            own = Path("tiny.yaml").read_text()
            write_recipe(recipe)
            for command in commands:
                result = self.lmi(*command)
                assert result.code == 0, result.err
            write_recipe(own)

        self.others.append(do)

    @property
    def endpoints(self) -> dict[str, str]:
        return {
            name: endpoint.observed.config for name, endpoint in self.cloud.account_state.endpoints.items()
        }


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedApp:
    monkeypatch.chdir(tmp_path)
    write_recipe()
    return SharedApp(tmp_path)


def test_confirmed_update_does_not_become_a_create(shared: SharedApp) -> None:
    shared.up()
    write_recipe(CHANGED)
    shared.meanwhile(DOWN)
    result = shared.lmi(*UP)
    assert result.code == 5, result.err
    assert "tiny: the plan is stale: it would now also create the endpoint tiny" in result.err
    assert "nothing was changed. Run the command again and check the new plan" in result.err
    assert shared.endpoints == {}
    assert shared.observe().record is None
    shared.up()


def test_confirmed_change_is_refused_after_another_change(shared: SharedApp) -> None:
    shared.up()
    write_recipe(CHANGED)
    shared.meanwhile(UP, recipe=OTHER)
    result = shared.lmi(*UP, "--json")
    assert result.code == 5
    error = result.result["error"]
    assert (error["kind"], error["exit_code"]) == ("StalePlan", 5)
    assert "the deployment has changed" in error["message"]
    assert "from bf16 to fp32" in error["message"]
    write_recipe(OTHER)
    assert shared.lmi("status", "tiny").code == 0
    assert shared.lmi("plan", "--exit-code").code == 0


def test_up_skips_what_a_concurrent_run_already_did(shared: SharedApp) -> None:
    shared.meanwhile(UP)
    assert "  + create the endpoint tiny" in shared.up().err
    write_recipe(CHANGED)
    shared.meanwhile(UP, recipe=CHANGED)
    shared.up()
    shared.meanwhile(DOWN)
    assert shared.lmi(*DOWN).code == 0
    assert shared.endpoints == {}


def test_down_deletes_only_the_endpoint_that_was_shown(shared: SharedApp) -> None:
    shared.up()
    shared.clock.sleep(60)
    shared.meanwhile(DOWN, UP)
    result = shared.lmi(*DOWN)
    assert result.code == 5, result.err
    assert "the plan is stale: the endpoint was replaced by one created at " in result.err
    assert [*shared.endpoints] == ["tiny"]
    assert shared.lmi("plan", "--exit-code").code == 0
    shared.cloud.account_state.endpoints.clear()
    shared.cloud.account_state.drop("endpoint", "tiny")
    shared.meanwhile(UP)
    result = shared.lmi(*DOWN)
    assert (result.code, "it would now also delete the endpoint tiny" in result.err) == (5, True), result.err
    assert [*shared.endpoints] == ["tiny"]


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (("--yes",), 0, "lmi will also create the shared endpoint team"),
        (("--yes", "--max-hourly", "6"), 5, "may cost $7.09 an hour"),
    ],
)
def test_shared_endpoint_that_went_meanwhile_is_created_again(
    shared: SharedApp, argv: tuple[str, ...], code: int, says: str
) -> None:
    for name in ("chat", "code"):
        write_on_shared_endpoint(name)
    shared.cloud.prices.hourly_of[GPUS] = 7.09
    shared.up("chat.yaml")
    shared.others.append(lambda: shared.lmi("down", "chat", "--yes"))
    result = shared.lmi("up", "code.yaml", *argv)
    assert (result.code, says in result.err) == (code, True), result.err
    assert [*shared.endpoints] == ([] if code else ["team"])


def test_shared_endpoint_that_is_deleted_when_the_model_is_put_on_it_is_created_again(
    shared: SharedApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("chat", "code"):
        write_on_shared_endpoint(name)
    shared.up("chat.yaml")
    create = FakeComponents.create_component

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(FakeComponents, "create_component", create)
        assert shared.lmi("down", "chat", "--yes").code == 0
        create(*arguments)

    monkeypatch.setattr(FakeComponents, "create_component", late)
    result = shared.lmi("up", "code.yaml", "--yes")
    assert (result.code, "was the last one; lmi creates it again" in result.err) == (0, True), result.err
    assert [*shared.endpoints] == ["team"]


def test_shared_endpoint_that_another_made_smaller_is_enlarged(shared: SharedApp) -> None:
    """The price was agreed to: the plan creates as many instances."""
    write_on_shared_endpoint("chat")
    write_on_shared_endpoint("code", endpoint=", count: 2")
    shared.others.append(lambda: shared.lmi("up", "chat.yaml", "--yes"))
    result = shared.lmi("up", "code.yaml", "--yes")
    assert (result.code, "lmi will also set team to 2 instances" in result.err) == (0, True), result.err


def test_shared_endpoint_that_went_meanwhile_makes_a_saved_plan_stale(shared: SharedApp) -> None:
    for name in ("chat", "code"):
        write_on_shared_endpoint(name)
    shared.up("chat.yaml")
    shared.lmi("plan", "code.yaml", "--out", "plan.json")
    shared.lmi("down", "chat", "--yes")
    result = shared.lmi("up", "plan.json", "--yes")
    assert (result.code, "the plan is stale" in result.err) == (5, True)


def test_rollback_is_refused_after_another_generation_was_deployed(shared: SharedApp) -> None:
    shared.up()
    write_recipe(CHANGED)
    shared.up()
    shared.meanwhile(UP, recipe=OTHER)
    result = shared.lmi("rollback", "tiny", "--yes")
    assert (result.code, "the plan is stale" in result.err) == (5, True), result.err
    write_recipe(OTHER)
    assert shared.lmi("plan", "--exit-code").code == 0


def test_saved_plan_is_refused_when_state_or_price_changed(
    shared: SharedApp,
) -> None:
    shared.up()
    write_recipe(CHANGED)
    assert shared.lmi("plan", "--out", "plan.json").code == 0
    shared.cloud.prices.hourly_of["ml.g5.xlarge"] = 1.60
    result = shared.lmi("up", "plan.json", "--yes")
    assert result.code == 5, result.err
    assert (
        "the plan is stale: ml.g5.xlarge now costs $1.60 an hour, $1.41 when the plan was made" in result.err
    )
    del shared.cloud.prices.hourly_of["ml.g5.xlarge"]
    shared.meanwhile(DOWN)
    result = shared.lmi("up", "plan.json", "--yes")
    assert (result.code, "it would now also create the endpoint tiny" in result.err) == (5, True), result.err
    assert shared.endpoints == {}


@pytest.mark.parametrize("recipe", [CHANGED, SCALED, RECIPE + "endpoint: {count: 2}\n"])
def test_tag_search_lag_does_not_make_a_plan_stale(shared: SharedApp, recipe: str) -> None:
    account = shared.cloud.account_state
    account.tag_lag = 300.0
    shared.up()
    write_recipe(recipe)
    assert shared.lmi("plan", "--out", "plan.json").code == 0
    shared.others.append(lambda: shared.clock.sleep(400))
    result = shared.lmi("up", "plan.json", "--yes")
    assert result.code == 0, result.err
    assert shared.lmi("plan", "--exit-code").code in (0, 4)
    shared.others.append(lambda: shared.clock.sleep(400))
    assert shared.lmi(*DOWN).code == 0
    assert shared.endpoints == {}


def test_stale_plan_is_refused_for_a_local_target(shared: SharedApp) -> None:
    write_recipe(LOCAL)
    shared.up()
    write_recipe(LOCAL + "options: {dtype: fp32}\n")
    shared.meanwhile(("up", "--yes"), recipe=LOCAL + "options: {dtype: bf16}\n")
    result = shared.lmi("up", "--yes")
    assert (result.code, "the plan is stale" in result.err) == (5, True), result.err
    write_recipe(LOCAL + "options: {dtype: bf16}\n")
    assert shared.lmi("plan", "--exit-code").code == 0
