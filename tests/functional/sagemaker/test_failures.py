"""Failures of SageMaker, foreign resources, and interrupted runs: no resource is lost, no foreign resource
changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.errors import AccessError, CloudError
from tests.support.action_failures import ActionFailures, Killed, KilledAtCommit, When, fail, failing
from tests.support.cloud_app import CloudApp
from tests.support.fake_hosting import NO_CAPACITY, Endpoint

CHANGED = ("--set", "options.dtype=fp32")
FIRST = (
    *("MakeBucket", "PushWeights", "PutArtifact", "CreateModel", "CreateEndpointConfig"),
    *("CreateEndpoint", "AwaitService", "ProbeEndpoint"),
)
DOWN = ("DeleteEndpoint", "DeleteEndpointConfig", "DeleteModel", "RemoveArtifact", "RemoveDeployment")
IN_THE_MATRIX = pytest.mark.long
"""The selection of the crash matrix has a process that ends before and after each of these actions."""
REPLIES = ("create_model", "create_endpoint_config", "create_endpoint", "update_endpoint", "tag")


def converges(app: CloudApp, *argv: str) -> None:
    """One `up`: one endpoint in service, in step and answering; nothing more to do; and `down` leaves
    nothing."""
    app.up(*argv)
    assert app.lmi("status", "tiny").code == 0
    assert "nothing to do" in app.up(*argv).err
    assert list(app.cloud.account_state.endpoints) == ["tiny"]
    ends(app)


def ends(app: CloudApp) -> None:
    result = app.lmi("down", "tiny", "--target", "sagemaker", "--yes")
    assert result.code == 0, result.err
    assert app.cloud_resources() == []
    assert (
        app.cloud.account_state.models
        == app.cloud.account_state.configs
        == app.cloud.account_state.endpoints
        == {}
    )


def fail_at(app: CloudApp, failures: ActionFailures, *argv: str) -> None:
    app.target = lambda target: failing(target, failures)
    if failures.error is Killed:
        with pytest.raises(Killed):
            app.lmi(*argv)
    else:
        assert app.lmi(*argv).code in (1, 130)
    app.target = lambda target: target


@pytest.mark.parametrize("aftermath", [converges, ends])
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(fail, id="fails"),
        pytest.param(Killed, id="dies", marks=IN_THE_MATRIX),
        pytest.param(KeyboardInterrupt, id="interrupted", marks=IN_THE_MATRIX),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(len(FIRST)), ids=FIRST)
def test_up_and_down_converge_after_a_failed_first_up(
    app: CloudApp,
    at: int,
    when: When,
    error: Callable[[], BaseException],
    aftermath: Callable[[CloudApp], None],
) -> None:
    fail_at(app, ActionFailures(at=at, when=when, error=error), "up", "--yes")
    app.lmi("status", "tiny")
    aftermath(app)


@pytest.mark.parametrize(
    "error", [pytest.param(fail, id="fails"), pytest.param(Killed, id="dies", marks=IN_THE_MATRIX)]
)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(7))
def test_up_converges_after_a_failed_update(
    app: CloudApp, at: int, when: When, error: Callable[[], BaseException]
) -> None:
    for argv in (CHANGED, ()):
        app.up()
        fail_at(app, ActionFailures(at=at, when=when, error=error), "up", "--yes", *CHANGED)
        converges(app, *argv)


@pytest.mark.parametrize(
    "error", [pytest.param(fail, id="fails"), pytest.param(Killed, id="dies", marks=IN_THE_MATRIX)]
)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(len(DOWN)), ids=DOWN)
def test_up_and_down_converge_after_a_failed_down(
    app: CloudApp, at: int, when: When, error: Callable[[], BaseException]
) -> None:
    for aftermath in (ends, converges):
        app.up()
        fail_at(app, ActionFailures(at=at, when=when, error=error), "down", "tiny", "--yes")
        aftermath(app)


@pytest.mark.parametrize("when", ["before", "after"])
def test_up_converges_after_a_kill_during_commit(app: CloudApp, when: When) -> None:
    app.journal = lambda journal: KilledAtCommit(journal, when)
    with pytest.raises(Killed):
        app.lmi("up", "--yes")
    app.journal = lambda journal: journal
    converges(app)


@pytest.mark.parametrize("method", REPLIES)
@pytest.mark.parametrize("lag", [0.0, 1e9], ids=["found", "tags lag"])
def test_up_converges_after_a_lost_reply(app: CloudApp, method: str, lag: float) -> None:
    app.cloud.account_state.tag_lag = lag
    app.cloud.account_state.failures.lost.append(method)
    argv = CHANGED if method in ("update_endpoint", "tag") else ()
    if argv:
        app.up()
    assert app.lmi("up", "--yes", *argv).code == 1
    app.up(*argv)
    assert app.lmi("status", "tiny").code == 0
    ends_by_record(app)


def ends_by_record(app: CloudApp) -> None:
    result = app.lmi("down", "tiny", "--target", "sagemaker", "--yes")
    assert result.code == 0, result.err
    assert (
        app.cloud.account_state.models
        == app.cloud.account_state.configs
        == app.cloud.account_state.endpoints
        == {}
    )


def test_next_instance_type_is_tried_without_capacity(app: CloudApp) -> None:
    app.cloud.account_state.failures.reasons["ml.g5.xlarge"] = NO_CAPACITY
    result = app.up()
    assert "trying the recipe's next instance type" in result.err
    assert app.cloud.account_state.configs[app.observe().serving or ""].settings.instance == "ml.g6.xlarge"
    assert "Watch and delete it:" in result.err
    again = app.up().err
    assert "nothing to do" in again
    assert "`lmi status tiny --region us-east-1 --calls` prints how to call it" in again, again
    assert "Watch and delete it:" not in again, again
    ends(app)


def test_next_instance_type_is_tried_without_quota(app: CloudApp) -> None:
    app.cloud.account_state.quotas["ml.g5.xlarge"] = 0.0
    result = app.up()
    assert 'the quota "ml.g5.xlarge for endpoint usage" in us-east-1 is 0' in result.err
    assert app.cloud.account_state.configs[app.observe().serving or ""].settings.instance == "ml.g6.xlarge"
    app.cloud.account_state.quotas["ml.g6.xlarge"] = 1.0
    again = app.lmi("up", "--yes", *CHANGED, "--set", "endpoint.count=2", "--json")
    assert (again.code, again.result["error"]["kind"]) == (1, "QuotaExceeded")
    ends(app)


def test_failed_update_without_capacity_keeps_the_old_config_serving(app: CloudApp) -> None:
    app.up()
    before = app.observe().serving
    app.cloud.account_state.failures.reasons |= dict.fromkeys(("ml.g5.xlarge", "ml.g6.xlarge"), NO_CAPACITY)
    result = app.lmi("up", "--yes", *CHANGED)
    assert result.code == 1
    assert f"{before} serves" in result.err
    assert "still serves" in result.err
    assert app.lmi("invoke", "tiny", "hello").out == "OK\n"
    app.cloud.account_state.failures.reasons.clear()
    converges(app, *CHANGED)


def test_failed_endpoint_is_reported_with_its_log_and_created_again(app: CloudApp) -> None:
    account = app.cloud.account_state
    account.prints["tiny"] = ("loading", "ModuleNotFoundError: No module named 'flash_attn'")
    account.failures.reasons["ml.g5.xlarge"] = "The container did not pass the ping health check."
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "did not pass the ping health check" in result.err
    assert "flash_attn" in result.err.partition("error:")[2]
    assert "which costs nothing" in result.err
    status = app.lmi("status", "tiny")
    assert (status.code, "the endpoint failed" in status.out) == (1, True)
    account.failures.reasons.clear()
    converges(app)


def test_foreign_endpoint_is_left_unchanged(app: CloudApp) -> None:
    account = app.cloud.account_state
    expected = ObservedEndpoint(
        name="tiny", arn=account.arn("endpoint", "tiny"), status="InService", config="theirs"
    )
    account.endpoints["tiny"] = Endpoint(expected)
    account.tagged("endpoint", "tiny", (("owner", "somebody"),))
    for argv in (("plan",), ("up", "--yes"), ("down", "tiny", "--target", "sagemaker", "--yes")):
        result = app.lmi(*argv)
        assert (result.code, "lmi did not create it" in result.err) == (5, True), result.err
    assert account.endpoints["tiny"].observed == expected
    assert not account.models


def test_down_continues_after_a_denied_delete(app: CloudApp) -> None:
    app.up()
    failure = app.cloud.account_state.failures
    failure.before["delete_model"] = [AccessError("sagemaker:DeleteModel is denied", hint="allow it")]
    result = app.lmi("down", "tiny", "--yes")
    assert (result.code, "sagemaker:DeleteModel is denied" in result.err) == (1, True)
    assert app.cloud.account_state.endpoints == app.cloud.account_state.configs == {}
    assert list(app.cloud.account_state.models)
    assert app.observe().record is not None
    ends(app)


def test_config_and_model_stay_while_the_endpoint_cannot_be_deleted(app: CloudApp) -> None:
    app.up()
    app.cloud.account_state.failures.before["delete_endpoint"] = [CloudError("not now", hint="later")] * 1
    assert app.lmi("down", "tiny", "--yes").code == 1
    assert app.cloud.account_state.configs
    assert app.cloud.account_state.models
    ends(app)


def test_interrupted_up_reports_the_endpoint_and_its_price(app: CloudApp) -> None:
    failures = ActionFailures(at=6, when="before", error=KeyboardInterrupt)
    app.target = lambda target: failing(target, failures)
    result = app.lmi("up", "--yes")
    assert result.code == 130
    assert "the endpoint tiny is Creating and still costs $1.41 an hour" in result.err
    app.target = lambda target: target
    converges(app)


def test_up_that_aws_ends_names_the_endpoint_it_cannot_look_at_any_more(app: CloudApp) -> None:
    def expired() -> AccessError:
        error = AccessError("AWS credentials: they have expired", hint="log in again")
        app.cloud.account_state.failures.before["endpoint"] = [error] * 9
        return error

    app.target = lambda target: failing(target, ActionFailures(at=6, when="before", error=expired))
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "they have expired" in result.err
    assert "tiny could not be looked at again: if its endpoint exists, it costs $1.41 an hour" in result.err
    assert "`lmi down tiny --region us-east-1` deletes it" in result.err
    app.target = lambda target: target
    app.cloud.account_state.failures.before.clear()
    converges(app)


def test_wait_on_a_failed_endpoint_reads_its_log_from_the_start(app: CloudApp) -> None:
    app.cloud.account_state.prints["tiny"] = ("loading",)
    app.cloud.account_state.failures.reasons["ml.g5.xlarge"] = (
        "The container did not pass the ping health check."
    )
    assert app.lmi("up", "--yes").code == 1
    observed = app.cloud.account_state.endpoints["tiny"].observed
    assert observed.created < observed.modified
    assert app.lmi("wait", "tiny").code == 1
    assert app.cloud.logs.since[-1] == observed.created


def test_wait_on_a_rolled_back_update_reads_the_log_of_that_update(app: CloudApp) -> None:
    app.up()
    app.clock.sleep(3600.0)
    app.cloud.account_state.prints["tiny"] = ("loading",)
    app.cloud.account_state.failures.reasons["ml.g6.xlarge"] = (
        "The container did not pass the ping health check."
    )
    started = app.clock.now()
    app.up("--detach", "--set", "instance_type=ml.g6.xlarge")
    app.clock.sleep(3600.0)
    result = app.lmi("wait", "tiny")
    assert (result.code, "was rolled back" in result.err) == (1, True)
    since = datetime.fromisoformat(app.cloud.logs.since[-1])
    assert started - timedelta(minutes=1) <= since <= started + timedelta(minutes=1)


def test_interrupted_wait_reports_the_endpoint_and_its_price(app: CloudApp) -> None:
    app.lmi("up", "--yes", "--detach")
    failures = ActionFailures(at=0, when="before", error=KeyboardInterrupt)
    app.target = lambda target: failing(target, failures)
    result = app.lmi("wait", "tiny")
    assert result.code == 130
    assert "the endpoint tiny is Creating and still costs $1.41 an hour" in result.err
    assert "Run `lmi wait` to wait again" in result.err
    app.target = lambda target: target
    converges(app)


def test_gc_deletes_orphans_without_record_or_endpoint(app: CloudApp) -> None:
    fail_at(app, ActionFailures(at=5, when="before", error=Killed), "up", "--yes")
    app.depot().records.remove("tiny")
    assert "orphan of an interrupted run" in app.lmi("gc", "--yes").out
    assert app.cloud_resources() == []


def test_endpoint_deleted_by_hand_is_drift_and_created_again(app: CloudApp) -> None:
    app.up()
    account = app.cloud.account_state
    del account.endpoints["tiny"]
    account.drop("endpoint", "tiny")
    status = app.lmi("status", "tiny")
    assert (status.code, "its endpoint was deleted" in status.out) == (4, True)
    converges(app)


def test_lost_record_is_rebuilt_by_up(app: CloudApp) -> None:
    app.up()
    app.depot().records.remove("tiny")
    assert app.lmi("status", "tiny").code == 4
    converges(app)


def test_second_run_is_refused_while_the_lock_is_held(app: CloudApp) -> None:
    app.up()
    with app.depot().lock.hold("tiny"):
        result = app.lmi("up", "--yes", *CHANGED)
        assert (result.code, "tiny: locked by lmi test" in result.err) == (5, True)
        assert app.lmi("down", "tiny", "--yes").code == 5
    converges(app)


def test_down_deletes_billed_resources_although_the_bucket_is_gone(app: CloudApp) -> None:
    app.up()
    app.cloud.account.buckets.clear()
    result = app.lmi("down", "tiny", "--yes")
    assert result.code == 0, result.err
    assert (
        app.cloud.account_state.models
        == app.cloud.account_state.configs
        == app.cloud.account_state.endpoints
        == {}
    )
