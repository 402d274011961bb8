"""A new version that serves and fails its probe: `lmi up` goes back to the previous one by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.errors import AccessError, CloudError
from tests.functional.sagemaker.test_failures import CHANGED, converges, ends
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.fake_hosting import ok_response

SCALED = RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n"


@pytest.fixture
def serving(app: CloudApp) -> str:
    """The config of a deployment whose next versions answer the probe with nothing."""
    return deployed(app)


def deployed(app: CloudApp) -> str:
    app.up()
    account = app.cloud.account_state
    good = app.observe().serving
    assert good is not None

    def answer(name: str, request: HttpRequest) -> Iterator[ResponseHead | bytes]:
        head, body = ok_response(name, request)
        yield head
        yield body if account.endpoints[name].observed.config == good else b""

    account.answer = answer
    return good


def repaired(app: CloudApp) -> None:
    app.cloud.account_state.answer = ok_response


@pytest.mark.parametrize("lag", [0.0, 3600.0])
def test_previous_version_serves_again(app: CloudApp, lag: float) -> None:
    """Also while the tag search does not know its resources yet."""
    app.cloud.account_state.tag_lag = lag
    serving = deployed(app)
    result = app.lmi("up", "--yes", *CHANGED)
    assert result.code == 1
    assert "the new version failed its probe; going back" in result.err
    assert "the probe failed" in result.err
    assert "the previous version of tiny serves again" in result.err
    assert app.observe().serving == serving
    assert app.lmi("invoke", "tiny", "hello").out == "OK\n"
    assert app.lmi("status", "tiny").code == 0
    repaired(app)
    converges(app, *CHANGED)


def test_next_up_of_the_old_recipe_removes_what_the_failed_version_left(app: CloudApp, serving: str) -> None:
    app.lmi("up", "--yes", *CHANGED)
    assert len(app.cloud.account_state.configs) == 2
    app.up()
    assert list(app.cloud.account_state.configs) == [serving]
    ends(app)


def test_down_after_it_leaves_nothing(app: CloudApp, serving: str) -> None:
    app.lmi("up", "--yes", *CHANGED)
    ends(app)


def test_no_rollback_leaves_the_new_version(app: CloudApp, serving: str) -> None:
    result = app.lmi("up", "--yes", "--no-rollback", *CHANGED)
    assert (result.code, "going back" in result.err) == (1, False)
    assert app.observe().serving != serving
    ends(app)


def test_first_version_has_nothing_to_go_back_to(app: CloudApp) -> None:
    app.cloud.account_state.answer = lambda name, request: [ok_response(name, request)[0], b""]
    result = app.lmi("up", "--yes")
    assert (result.code, "going back" in result.err) == (1, False)
    ends(app)


def test_version_that_could_not_be_asked_stays(app: CloudApp) -> None:
    """The request failed, not the model: the way back would need the same network and permissions."""
    app.up()
    before = app.observe().serving
    app.cloud.account_state.failures.before["invoke"] = [AccessError("no permission", hint="ask")]
    result = app.lmi("up", "--yes", *CHANGED)
    assert (result.code, "going back" in result.err) == (1, False)
    assert app.observe().serving != before
    ends(app)


def test_scaling_of_the_previous_version_is_restored(app: CloudApp) -> None:
    """SageMaker changes no instance type under a scalable target: it was removed for the update."""
    write_recipe(SCALED)
    serving = deployed(app)
    before = app.cloud.scalers.scaling("tiny")
    assert before is not None
    write_recipe(SCALED.replace("ml.g5.xlarge", "ml.g6.xlarge"))
    result = app.lmi("up", "--yes", *CHANGED, "--set", "instance_type=ml.g6.xlarge")
    assert "serves again" in result.err
    assert (app.observe().serving, app.cloud.scalers.scaling("tiny")) == (serving, before)
    ends(app)


def test_failed_way_back_is_said_and_rollback_completes_it(app: CloudApp, serving: str) -> None:
    account, busy = app.cloud.account_state, CloudError("SageMaker is busy", hint="wait")
    bad = account.answer

    def answer(name: str, request: HttpRequest) -> Iterable[ResponseHead | bytes]:
        account.failures.before["update_endpoint"] = [busy]
        return bad(name, request)

    account.answer = answer
    result = app.lmi("up", "--yes", *CHANGED)
    assert result.code == 1
    assert "the probe failed" in result.err
    assert (
        "the way back failed, too: SageMaker is busy; `lmi rollback tiny --region us-east-1` tries again"
        in result.err
    )
    account.answer = bad
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    assert app.observe().serving == serving
    ends(app)


def test_wait_goes_back_too(app: CloudApp, serving: str) -> None:
    assert app.lmi("up", "--yes", "--detach", *CHANGED).code == 0
    result = app.lmi("wait", "tiny")
    assert (result.code, "serves again" in result.err) == (1, True)
    assert app.observe().serving == serving
    ends(app)
