"""Trouble on SageMaker's side, strangers, and runs that end early: nothing is lost, nothing foreign is touched."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from lmi_deploy.domain.sagemaker.settings import SeenEndpoint
from lmi_deploy.errors import AccessError, CloudError
from tests.support.action_failures import Killed, KilledAtSettling, Trouble, TroubledTarget, When, fail
from tests.support.cloud_app import CloudHouse
from tests.support.fake_hosting import NO_CAPACITY, Endpoint

CHANGED = ("--set", "options.dtype=fp32")
FIRST = (
    *("MakeBucket", "PushWeights", "PutArtifact", "CreateModel", "CreateEndpointConfig"),
    *("CreateEndpoint", "AwaitService", "ProbeEndpoint"),
)
DOWN = ("DeleteEndpoint", "DeleteEndpointConfig", "DeleteModel", "RemoveArtifact", "RemoveDeployment")
REPLIES = ("create_model", "create_endpoint_config", "create_endpoint", "update_endpoint", "tag")


def converges(house: CloudHouse, *argv: str) -> None:
    """Up, once: one endpoint in service, in step, answering; nothing more to do; and down leaves nothing."""
    house.up(*argv)
    assert house.lmi("status", "tiny").code == 0
    assert "nothing to do" in house.up(*argv).err
    assert list(house.cloud.world.endpoints) == ["tiny"]
    ends(house)


def ends(house: CloudHouse) -> None:
    ran = house.lmi("down", "tiny", "--target", "sagemaker", "--yes")
    assert ran.code == 0, ran.err
    assert house.kept_in_cloud() == []
    assert house.cloud.world.models == house.cloud.world.configs == house.cloud.world.endpoints == {}


def strike(house: CloudHouse, trouble: Trouble, *argv: str) -> None:
    house.target = lambda target: TroubledTarget(target, trouble)
    if trouble.error is Killed:
        with pytest.raises(Killed):
            house.lmi(*argv)
    else:
        assert house.lmi(*argv).code in (1, 130)
    house.target = lambda target: target


@pytest.mark.parametrize("aftermath", [converges, ends])
@pytest.mark.parametrize("error", [fail, Killed, KeyboardInterrupt], ids=["fails", "dies", "interrupted"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(len(FIRST)), ids=FIRST)
def test_a_first_up_that_ends_early(
    house: CloudHouse,
    at: int,
    when: When,
    error: Callable[[], BaseException],
    aftermath: Callable[[CloudHouse], None],
) -> None:
    strike(house, Trouble(at=at, when=when, error=error), "up", "--yes")
    house.lmi("status", "tiny")
    aftermath(house)


@pytest.mark.parametrize("error", [fail, Killed], ids=["fails", "dies"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(7))
def test_an_update_that_ends_early(
    house: CloudHouse, at: int, when: When, error: Callable[[], BaseException]
) -> None:
    for argv in (CHANGED, ()):
        house.up()
        strike(house, Trouble(at=at, when=when, error=error), "up", "--yes", *CHANGED)
        converges(house, *argv)


@pytest.mark.parametrize("error", [fail, Killed], ids=["fails", "dies"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(len(DOWN)), ids=DOWN)
def test_a_down_that_ends_early(
    house: CloudHouse, at: int, when: When, error: Callable[[], BaseException]
) -> None:
    for aftermath in (ends, converges):
        house.up()
        strike(house, Trouble(at=at, when=when, error=error), "down", "tiny", "--yes")
        aftermath(house)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_death_while_the_generation_is_recorded(house: CloudHouse, when: When) -> None:
    house.journal = lambda journal: KilledAtSettling(journal, when)
    with pytest.raises(Killed):
        house.lmi("up", "--yes")
    house.journal = lambda journal: journal
    converges(house)


@pytest.mark.parametrize("method", REPLIES)
@pytest.mark.parametrize("lag", [0.0, 1e9], ids=["found", "tags lag"])
def test_a_lost_reply(house: CloudHouse, method: str, lag: float) -> None:
    house.cloud.world.tag_lag = lag
    house.cloud.world.trouble.lost.append(method)
    argv = CHANGED if method in ("update_endpoint", "tag") else ()
    if argv:
        house.up()
    assert house.lmi("up", "--yes", *argv).code == 1
    house.up(*argv)
    assert house.lmi("status", "tiny").code == 0
    ends_by_record(house)


def ends_by_record(house: CloudHouse) -> None:
    ran = house.lmi("down", "tiny", "--target", "sagemaker", "--yes")
    assert ran.code == 0, ran.err
    assert house.cloud.world.models == house.cloud.world.configs == house.cloud.world.endpoints == {}


def test_the_next_instance_type_where_the_first_is_not_to_be_had(house: CloudHouse) -> None:
    house.cloud.world.trouble.reasons["ml.g5.xlarge"] = NO_CAPACITY
    ran = house.up()
    assert "trying the recipe's next instance type" in ran.err
    assert house.cloud.world.configs[house.seen().serving or ""].settings.instance == "ml.g6.xlarge"
    assert "nothing to do" in house.up().err
    ends(house)


def test_the_next_instance_type_where_the_quota_of_the_first_is_used_up(house: CloudHouse) -> None:
    house.cloud.world.quotas["ml.g5.xlarge"] = 0.0
    ran = house.up()
    assert 'the quota "ml.g5.xlarge for endpoint usage" in us-east-1 is 0' in ran.err
    assert house.cloud.world.configs[house.seen().serving or ""].settings.instance == "ml.g6.xlarge"
    house.cloud.world.quotas["ml.g6.xlarge"] = 1.0
    again = house.lmi("up", "--yes", *CHANGED, "--set", "endpoint.count=2", "--json")
    assert (again.code, again.result["error"]["kind"]) == (1, "QuotaExceeded")
    ends(house)


def test_an_update_finds_no_instance_either(house: CloudHouse) -> None:
    house.up()
    before = house.seen().serving
    house.cloud.world.trouble.reasons |= dict.fromkeys(("ml.g5.xlarge", "ml.g6.xlarge"), NO_CAPACITY)
    ran = house.lmi("up", "--yes", *CHANGED)
    assert ran.code == 1
    assert f"{before} serves" in ran.err
    assert "still serves as it did before" in ran.err
    assert house.lmi("invoke", "tiny", "hello").out == "OK\n"
    house.cloud.world.trouble.reasons.clear()
    converges(house, *CHANGED)


def test_a_failed_endpoint_is_told_with_its_last_lines_and_made_anew(house: CloudHouse) -> None:
    world = house.cloud.world
    world.prints["tiny"] = ("loading", "ModuleNotFoundError: No module named 'flash_attn'")
    world.trouble.reasons["ml.g5.xlarge"] = "The container did not pass the ping health check."
    ran = house.lmi("up", "--yes")
    assert ran.code == 1
    assert "did not pass the ping health check" in ran.err
    assert "flash_attn" in ran.err.partition("error:")[2]
    assert "which costs nothing" in ran.err
    status = house.lmi("status", "tiny")
    assert (status.code, "the endpoint failed" in status.out) == (1, True)
    world.trouble.reasons.clear()
    converges(house)


def test_somebody_elses_endpoint_is_left_alone(house: CloudHouse) -> None:
    world = house.cloud.world
    theirs = SeenEndpoint(name="tiny", arn=world.arn("endpoint", "tiny"), status="InService", config="theirs")
    world.endpoints["tiny"] = Endpoint(theirs)
    world.tagged("endpoint", "tiny", (("owner", "somebody"),))
    for argv in (("plan",), ("up", "--yes"), ("down", "tiny", "--target", "sagemaker", "--yes")):
        ran = house.lmi(*argv)
        assert (ran.code, "is not ours" in ran.err) == (5, True), ran.err
    assert world.endpoints["tiny"].seen == theirs
    assert not world.models


def test_down_goes_on_past_what_it_may_not_delete(house: CloudHouse) -> None:
    house.up()
    trouble = house.cloud.world.trouble
    trouble.before["delete_model"] = [AccessError("sagemaker:DeleteModel is denied", hint="allow it")]
    ran = house.lmi("down", "tiny", "--yes")
    assert (ran.code, "sagemaker:DeleteModel is denied" in ran.err) == (1, True)
    assert house.cloud.world.endpoints == house.cloud.world.configs == {}
    assert list(house.cloud.world.models)
    assert house.seen().record is not None
    ends(house)


def test_what_runs_while_the_endpoint_cannot_be_deleted_keeps_what_it_needs(house: CloudHouse) -> None:
    house.up()
    house.cloud.world.trouble.before["delete_endpoint"] = [CloudError("not now", hint="later")] * 1
    assert house.lmi("down", "tiny", "--yes").code == 1
    assert house.cloud.world.configs
    assert house.cloud.world.models
    ends(house)


def test_what_an_up_was_interrupted_at_is_said_with_its_price(house: CloudHouse) -> None:
    trouble = Trouble(at=6, when="before", error=KeyboardInterrupt)
    house.target = lambda target: TroubledTarget(target, trouble)
    ran = house.lmi("up", "--yes")
    assert ran.code == 130
    assert "the endpoint tiny is Creating and goes on costing $1.41 an hour" in ran.err
    house.target = lambda target: target
    converges(house)


def test_waiting_for_one_that_has_failed_tells_its_log_from_the_beginning(house: CloudHouse) -> None:
    house.cloud.world.prints["tiny"] = ("loading",)
    house.cloud.world.trouble.reasons["ml.g5.xlarge"] = "The container did not pass the ping health check."
    assert house.lmi("up", "--yes").code == 1
    seen = house.cloud.world.endpoints["tiny"].seen
    assert seen.created < seen.modified
    assert house.lmi("wait", "tiny").code == 1
    assert house.cloud.logs.since[-1] == seen.created


def test_waiting_for_an_update_that_was_rolled_back_tells_the_log_of_the_attempt(house: CloudHouse) -> None:
    house.up()
    house.clock.sleep(3600.0)
    house.cloud.world.prints["tiny"] = ("loading",)
    house.cloud.world.trouble.reasons["ml.g6.xlarge"] = "The container did not pass the ping health check."
    begun = house.clock.now()
    house.up("--detach", "--set", "instance_type=ml.g6.xlarge")
    house.clock.sleep(3600.0)
    ran = house.lmi("wait", "tiny")
    assert (ran.code, "was rolled back" in ran.err) == (1, True)
    since = datetime.fromisoformat(house.cloud.logs.since[-1])
    assert begun - timedelta(minutes=1) <= since <= begun + timedelta(minutes=1)


def test_what_a_wait_was_interrupted_at_is_said_with_its_price(house: CloudHouse) -> None:
    house.lmi("up", "--yes", "--detach")
    trouble = Trouble(at=0, when="before", error=KeyboardInterrupt)
    house.target = lambda target: TroubledTarget(target, trouble)
    ran = house.lmi("wait", "tiny")
    assert ran.code == 130
    assert "the endpoint tiny is Creating and goes on costing $1.41 an hour" in ran.err
    assert "`lmi wait` waits again" in ran.err
    house.target = lambda target: target
    converges(house)


def test_an_interrupted_run_without_record_or_endpoint_is_found_by_gc(house: CloudHouse) -> None:
    strike(house, Trouble(at=5, when="before", error=Killed), "up", "--yes")
    house.depot().records.remove("tiny")
    assert "an interrupted run left it" in house.lmi("gc", "--yes").out
    assert house.kept_in_cloud() == []


def test_a_change_by_hand_is_seen_and_set_right(house: CloudHouse) -> None:
    house.up()
    world = house.cloud.world
    del world.endpoints["tiny"]
    world.drop("endpoint", "tiny")
    status = house.lmi("status", "tiny")
    assert (status.code, "its endpoint is gone" in status.out) == (4, True)
    converges(house)


def test_a_lost_record_loses_history_only(house: CloudHouse) -> None:
    house.up()
    house.depot().records.remove("tiny")
    assert house.lmi("status", "tiny").code == 4
    converges(house)


def test_two_at_once_are_refused_in_turn(house: CloudHouse) -> None:
    house.up()
    with house.depot().lock.hold("tiny"):
        ran = house.lmi("up", "--yes", *CHANGED)
        assert (ran.code, "tiny: locked by lmi test" in ran.err) == (5, True)
        assert house.lmi("down", "tiny", "--yes").code == 5
    converges(house)


def test_what_costs_money_is_taken_away_though_its_bucket_is_gone(house: CloudHouse) -> None:
    house.up()
    house.cloud.account.buckets.clear()
    ran = house.lmi("down", "tiny", "--yes")
    assert ran.code == 0, ran.err
    assert house.cloud.world.models == house.cloud.world.configs == house.cloud.world.endpoints == {}
