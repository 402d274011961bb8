"""Eventual consistency: new resources are waited for, with a notice, for a minute at most."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import NotFound
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

BY_JOB = RECIPE + "weights: {via: job}\n"


@pytest.mark.parametrize("lag", ["read_lag", "role_lag"])
@pytest.mark.parametrize("recipe", [RECIPE, BY_JOB], ids=["from here", "by a job"])
def test_up_waits_until_new_resources_are_visible(app: CloudApp, lag: str, recipe: str) -> None:
    write_recipe(recipe)
    setattr(app.cloud.account_state, lag, 30.0)
    lines = app.up("--json").lines
    notices = [line["text"] for line in lines if "yet (eventual consistency)" in line.get("text", "")]
    assert all(text.endswith("lmi retries for at most 60 s") for text in notices)
    assert 1 <= len(notices) <= 2
    messages = [line for line in lines if "yet (eventual consistency)" in line.get("note", "")]
    first = messages[0]
    assert (first["unit"], first["total"]) == ("seconds", 60.0)
    assert 2 <= first["done"] <= 10
    assert messages[-1]["done"] <= 30
    assert app.lmi("status", "tiny").code == 0
    app.up("--set", "options.dtype=fp32")


@pytest.mark.parametrize(
    ("lag", "what"),
    [("read_lag", "the model tiny-"), ("role_lag", "the role lmi-endpoint")],
)
def test_up_fails_after_waiting_a_minute_for_visibility(app: CloudApp, lag: str, what: str) -> None:
    setattr(app.cloud.account_state, lag, 1e9)
    started = app.clock.passed
    result = app.lmi("up", "--yes", "--json")
    assert result.code == 1
    assert 60 <= app.clock.passed - started <= 65
    error = result.result["error"]
    assert what in error["message"]
    assert "lmi waited 60 s)" in error["message"]
    assert "run the same command again" in error["hint"]


def test_resource_that_was_never_created_is_not_waited_for(app: CloudApp) -> None:
    cloud = app.cloud.cloud()
    propagation = Propagation(cloud=cloud, clock=app.clock)
    arn = app.cloud.account_state.arn("model", "mistyped")

    def request() -> None:
        raise NotFound("model mistyped: not found", arn=arn)

    with pytest.raises(NotFound):
        list(propagation.until_found("model", "mistyped", request, key="k"))
    propagation.created.add("other")
    with pytest.raises(NotFound):
        list(propagation.until_found("model", "other", request, key="k"))
    assert app.clock.passed == 0


def test_role_that_iam_does_not_know_is_not_waited_for(app: CloudApp) -> None:
    app.cloud.account_state.role_lag = 1e9
    cloud = app.cloud.cloud()
    app.cloud.roles.absent.add("r")
    with pytest.raises(Exception, match="Could not assume role"):
        list(
            Propagation(cloud=cloud, clock=app.clock).until_assumable(
                "r", lambda: app.cloud.account_state.require_role("model m"), key="k"
            )
        )
    assert app.clock.passed == 0


def test_deleted_resource_still_in_the_tag_search_is_created_again(app: CloudApp) -> None:
    """After a `down` the tag search still lists deleted resources for minutes."""
    app.cloud.account_state.tag_lag = 600.0
    app.up()
    app.clock.sleep(700)
    assert app.lmi("down", "tiny", "--yes").code == 0
    app.up()
    assert app.lmi("status", "tiny").code == 0
    app.up("--set", "options.dtype=fp32")
    app.clock.sleep(700)
    (missing, current) = (generation.server for generation in app.record().generations)
    account = app.cloud.account_state
    assert (account.endpoints["tiny"].observed.config, missing in account.configs) == (current, True)
    app.cloud.cloud().hosting.delete_endpoint_config(missing)
    result = app.lmi("rollback", "tiny", "--yes")
    assert (result.code, "no earlier generation" in result.err) == (1, True), result.err


def test_tags_are_compared_with_list_tags_not_the_tag_search(app: CloudApp) -> None:
    """The tag search shows the tags of an earlier `up`: they are neither set again nor taken for the current
    ones."""
    app.cloud.account_state.tag_lag = 600.0
    one, other = ("--set", "endpoint.tags.team=blue"), ("--set", "endpoint.tags.team=red")
    app.up(*one)
    app.clock.sleep(700)
    app.up(*other)
    assert app.lmi("plan", *other, "--exit-code").code == 0
    app.up(*one)
    account = app.cloud.account_state
    assert dict(account.tags[account.arn("endpoint", "tiny")])["team"] == "blue"
