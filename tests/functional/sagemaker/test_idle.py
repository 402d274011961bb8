"""`lmi gc --idle`: what had no request is listed, agreed to and deleted; everything else stays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lmi_deploy.errors import AccessError, CloudError
from tests.functional.sagemaker.test_expiry import before_the_lock
from tests.functional.sagemaker.test_many import rows, serving
from tests.support.cloud_app import CloudApp

IDLE = ("gc", "--idle", "2h")


def used(app: CloudApp, name: str, *, seconds_ago: float) -> None:
    app.cloud.metrics.requests[name] = [app.clock.now() - timedelta(seconds=seconds_ago)]


def test_idle_deployments_are_deleted_and_used_ones_stay(app: CloudApp) -> None:
    serving(app, "a", "b")
    app.clock.sleep(8000)
    used(app, "b", seconds_ago=7000)
    result = app.lmi(*IDLE, "--yes", "--json")
    assert (result.code, [*rows(result)]) == (0, ["a"]), result.err
    assert (result.result["idle"], result.result["ended"]) == (1, 1)
    assert [*app.cloud.account_state.endpoints] == ["b"]
    app.clock.sleep(300)
    assert app.lmi(*IDLE, "--yes", "--json").result["ended"] == 1


def test_endpoint_that_is_younger_than_the_window_is_not_idle(app: CloudApp) -> None:
    serving(app, "a")
    app.clock.sleep(6000)
    result = app.lmi(*IDLE, "--yes")
    assert (result.code, result.out) == (0, "")
    assert "had a request, a change or its creation in the last 2h" in result.err
    assert "used" not in app.cloud.account_state.calls, "no metric is read for it"


def test_endpoint_that_was_updated_within_the_window_is_not_idle(app: CloudApp) -> None:
    serving(app, "a")
    app.clock.sleep(8000)
    app.up("--set", "options.dtype=fp32")
    assert app.lmi(*IDLE, "--yes").out == ""


def test_without_a_terminal_and_without_yes_it_only_lists(app: CloudApp) -> None:
    serving(app, "a")
    app.clock.sleep(8000)
    result = app.lmi(*IDLE)
    assert (result.code, "no request for 2h" in result.out) == (0, True)
    assert "nothing was deleted: there is no terminal to ask" in result.err
    assert "a" in app.cloud.account_state.endpoints


def test_deletion_is_confirmed_on_a_terminal(app: CloudApp) -> None:
    serving(app, "a")
    app.clock.sleep(8000)
    refused = app.lmi(*IDLE, stdin=b"n\n", terminal=True)
    assert (refused.code, "Delete 1 deployment? [y/N]" in refused.err) == (130, True)
    assert "a" in app.cloud.account_state.endpoints
    assert app.lmi(*IDLE, stdin=b"y\n", terminal=True).code == 0
    assert app.cloud.account_state.endpoints == {}


def test_request_during_the_prompt_keeps_the_deployment(app: CloudApp) -> None:
    serving(app, "a")
    app.clock.sleep(8000)
    before_the_lock(app, lambda: used(app, "a", seconds_ago=1))
    result = app.lmi(*IDLE, "--yes", "--json")
    assert (result.code, result.result["kept"]) == (0, ["a"]), result.out
    assert "a stays: it had a request in the meantime" in result.out
    assert "a" in app.cloud.account_state.endpoints


@pytest.mark.parametrize("call", ["used", "endpoints"])
def test_nothing_is_deleted_if_the_metrics_or_the_list_cannot_be_read(app: CloudApp, call: str) -> None:
    serving(app, "a")
    app.clock.sleep(8000)
    failure = AccessError if call == "endpoints" else CloudError
    app.cloud.account_state.failures.before[call] = [failure("may not be read", hint="allow it")]
    result = app.lmi(*IDLE, "--yes")
    assert (result.code, "may not be read" in result.err) == (1, True)
    assert "a" in app.cloud.account_state.endpoints


@pytest.mark.parametrize("duration", ["5m", "64d", "soon", "0h"])
def test_duration_outside_the_limits_is_refused(app: CloudApp, duration: str) -> None:
    assert app.lmi("gc", "--idle", duration).code == 2
