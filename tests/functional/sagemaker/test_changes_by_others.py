"""What a teammate, a console or another tool did to a deployment is seen, priced and explained."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from lmi_deploy.domain.record import Author
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.ports.event_history import EndpointCall
from lmi_deploy.workflows.dependencies import Dependencies
from tests.functional.sagemaker.test_lifecycle import CHANGED
from tests.functional.sagemaker.test_shared_endpoint import actions, up, write
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe


def test_role_that_is_gone_or_may_not_read_is_drift_and_stops_what_starts_instances(app: CloudApp) -> None:
    app.up()
    app.up(*CHANGED)
    roles, current = app.cloud.roles, app.record().current
    assert current is not None
    for broken, words in (
        ("absent", "its role lmi-endpoint does not exist"),
        ("denied", "may not s3:GetObject on"),
    ):
        if broken == "absent":
            roles.absent.add(current.serving.cloud.role)
        else:
            roles.absent.clear()
            roles.denied.add("s3:GetObject")
        status = app.lmi("status", "tiny", "--json")
        assert (status.code, status.result["standing"]) == (4, "drifted")
        assert words in status.result["why"]
        assert "`lmi bootstrap`" in status.result["why"]
        plan = app.lmi("plan", *CHANGED)
        assert (plan.code, "no new instance would start" in plan.err) == (0, True), plan.err
        before = app.observe().serving
        for command in (("scale", "tiny", "2", "--yes"), ("rollback", "tiny", "--yes")):
            refused = app.lmi(*command)
            assert (refused.code, words in refused.err) == (5, True), refused.err
        assert app.observe().serving == before
    roles.denied.clear()
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("rollback", "tiny", "--yes").code == 0


def test_without_the_right_to_ask_for_permissions_nothing_is_said(app: CloudApp) -> None:
    app.up()
    app.cloud.roles.silent = True
    assert app.lmi("status", "tiny").code == 0
    assert "role" not in app.lmi("plan").err


def test_autoscaling_registered_elsewhere_is_priced_and_bound_by_the_limit(app: CloudApp) -> None:
    write_recipe(RECIPE.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g5.xlarge"))
    app.up()
    app.cloud.scalers.targets["tiny"] = Scaling(least=3, most=6, invocations=0)
    status = app.lmi("status", "tiny")
    assert status.code == 0
    assert "3 to 6 instances, by autoscaling that another tool registered" in status.out
    plan = app.lmi("plan")
    assert "tiny has 3 to 6 instances, by autoscaling" in plan.err
    assert "cost: $4.22 to $8.45 an hour" in plan.out
    refused = app.lmi("up", "--yes", "--max-hourly", "2")
    assert (refused.code, "may cost $4.22 to $8.45 an hour" in refused.err) == (5, True), refused.err
    assert app.lmi("up", "--yes", "--max-hourly", "9").code == 0
    assert app.cloud.scalers.targets["tiny"].most == 6, "it stays"


def console_config(app: CloudApp) -> None:
    """Two larger instances, by a config of the console, two hours after the deployment."""
    account = app.cloud.account_state
    (name,) = account.configs
    other = replace(account.configs[name], name="theirs")
    other = replace(other, settings=replace(other.settings, instance="ml.g5.4xlarge", count=2))
    account.configs["theirs"] = other
    app.clock.sleep(7200)
    endpoint = account.endpoints["tiny"]
    endpoint.observed = replace(
        endpoint.observed, config="theirs", count=2, desired_count=2, modified=app.clock.now().isoformat()
    )


def test_config_of_the_console_is_in_the_difference_and_in_the_cost(app: CloudApp) -> None:
    app.up()
    console_config(app)
    app.clock.sleep(3600)
    plan = app.lmi("plan")
    assert "instance_type: ml.g5.4xlarge -> ml.g5.xlarge, ml.g6.xlarge" in plan.out
    assert "count: 2 -> 1" in plan.out
    assert "goes back" not in plan.err
    found = [line for line in app.lmi("cost", "--json").lines if line["event"] == "row"]
    assert [(row["instance"], row["count"]) for row in found] == [("ml.g5.xlarge", 1), ("ml.g5.4xlarge", 2)]
    assert found[1]["hours"] == pytest.approx(2.0)
    assert found[0]["end"] == found[1]["start"]


def test_hours_of_a_change_by_others_stay_when_lmi_changes_it_back(app: CloudApp) -> None:
    app.up()
    console_config(app)
    app.clock.sleep(3600)
    app.up()
    app.clock.sleep(3600)
    assert app.lmi("scale", "tiny", "3", "--yes").code == 0
    app.clock.sleep(3600)
    app.up()
    app.clock.sleep(3600)
    found = [line for line in app.lmi("cost", "--json").lines if line["event"] == "row"]
    kinds = [
        ("ml.g5.xlarge", 1),
        ("ml.g5.4xlarge", 2),
        ("ml.g5.xlarge", 1),
        ("ml.g5.xlarge", 3),
        ("ml.g5.xlarge", 1),
    ]
    assert [(row["instance"], row["count"]) for row in found] == kinds
    for before, after in pairwise(found):
        assert before["end"] == after["start"]
    assert [period.change for period in app.record().periods] == ["up", "other", "up", "scale", "up"]


def test_number_set_by_scale_is_in_the_cost_since_then(app: CloudApp) -> None:
    app.up()
    app.clock.sleep(7200)
    assert app.lmi("scale", "tiny", "3", "--yes").code == 0
    app.clock.sleep(3600)
    found = [line for line in app.lmi("cost", "--json").lines if line["event"] == "row"]
    assert [row["count"] for row in found] == [1, 3]
    assert found[1]["hours"] == pytest.approx(3, abs=0.6)


def test_shared_endpoint_shrinks_to_what_its_recipes_want(app: CloudApp) -> None:
    write("chat")
    write("code", endpoint=", count: 2")
    up(app, "chat")
    up(app, "code")
    endpoints = app.cloud.account_state.endpoints
    assert endpoints["team"].observed.desired_count == 2
    assert actions(app, "chat") == [], "the other recipe wants two"
    assert app.lmi("down", "code", "--yes").code == 0
    assert actions(app, "chat") == ["set-instance-count"]
    up(app, "chat")
    assert endpoints["team"].observed.desired_count == 1
    assert actions(app, "chat") == []


def test_shared_endpoint_does_not_shrink_below_what_the_copies_need(app: CloudApp) -> None:
    write("chat", endpoint=", count: 3, component: {copies: 3}")
    write("code", endpoint=", component: {copies: 3}")
    up(app, "chat")
    up(app, "code")
    write("chat", endpoint=", component: {copies: 3}")
    up(app, "chat")
    assert app.cloud.account_state.endpoints["team"].observed.desired_count == 2
    assert actions(app, "chat") == []


def test_shared_endpoint_stays_while_another_recipes_want_is_unknown(app: CloudApp) -> None:
    write("chat")
    write("code", endpoint=", count: 2")
    up(app, "chat")
    up(app, "code")
    app.depot().records.remove("code")
    assert actions(app, "chat") == []


def test_lost_record_is_shown_and_the_way_back_stays(app: CloudApp) -> None:
    app.up()
    first = app.observe().serving
    app.up(*CHANGED)
    second = app.observe().serving
    app.depot().records.remove("tiny")
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert "its record is lost" in status.result["why"]
    assert [one["config"] for one in status.result["earlier"]] == [first]
    app.up(*CHANGED)
    assert app.lmi("status", "tiny").code == 0
    assert [one.server for one in app.record().generations] == [first, second]
    app.depot().records.remove("tiny")
    app.cloud.roles.denied.add("s3:GetObject")
    refused = app.lmi("rollback", "tiny", "--yes")
    assert (refused.code, "may not s3:GetObject on" in refused.err, "weights/" in refused.err) == (
        5,
        True,
        True,
    )
    app.cloud.roles.denied.clear()
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    assert app.observe().serving == first
    assert [one.server for one in app.record().generations] == [second, first]
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud_resources() == []


def test_lost_record_gets_its_history_from_cloudtrail(app: CloudApp) -> None:
    app.up()
    first = app.observe().serving
    app.up(*CHANGED)
    second = app.observe().serving
    ada, ben = "arn:aws:iam::111122223333:user/ada", "arn:aws:iam::111122223333:user/ben"
    types = ("ml.g5.xlarge",)
    calls = (
        EndpointCall(at="2026-10-01T08:00:00Z", by=ada, is_ours=True, config=first, types=types, count=1),
        EndpointCall(at="2026-10-02T08:00:00Z", by=ada, is_ours=True, count=2),
        EndpointCall(at="2026-10-03T08:00:00Z", by=ben, is_ours=False, config=second, types=types, count=1),
    )
    for known, denied, periods in (
        (calls, False, [("up", first, 1, ada), ("scale", first, 2, ada), ("other", second, 1, ben)]),
        (calls[:2], False, []),
        (calls, True, []),
    ):
        app.cloud.events.known, app.cloud.events.denied = known, denied
        app.depot().records.remove("tiny")
        record = app.observe().record
        assert record is not None
        assert [(one.change, one.server, one.count, one.by.arn) for one in record.history] == periods
    app.cloud.events.denied = False
    app.up(*CHANGED)
    assert [one.by.arn for one in app.record().periods][:2] == [ada, ada]


def deployed_from(app: CloudApp, monkeypatch: pytest.MonkeyPatch, **author: str) -> None:
    """The next commands run from this repository."""
    found, deps = Author(host="here", **author), type(app).deps

    def with_author(self: CloudApp) -> Dependencies:
        return replace(deps(self), recipe_author=lambda _: found)

    monkeypatch.setattr(type(app), "deps", with_author)


def test_recipe_of_another_repository_is_not_replaced_unattended(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        deployed_from(app, patch, repository="git.example/a", path="chat.yaml", revision="1234")
        app.up()
        status = app.lmi("status", "tiny")
        assert "on here, from chat.yaml of git.example/a at 1234" in status.out
    with monkeypatch.context() as patch:
        deployed_from(app, patch, repository="git.example/b", path="chat.yaml", revision="99")
        assert app.lmi("up", "--yes").code == 0, "nothing is replaced"
        before = app.observe().serving
        refused = app.lmi("up", "--yes", *CHANGED)
        assert (refused.code, app.observe().serving) == (5, before), refused.err
        assert "tiny was deployed from chat.yaml of git.example/a at 1234" in refused.err
        assert "--take-over" in refused.err
        assert "was deployed from" in app.lmi("plan", *CHANGED).err
        assert app.lmi("up", "--yes", "--take-over", *CHANGED).code == 0
        assert app.lmi("up", "--yes", *CHANGED, "--set", "endpoint.count=2").code == 0, "it is this one's now"


def test_file_that_git_does_not_track_is_no_other_recipe(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        deployed_from(app, patch, repository="git.example/a", path="chat.yaml")
        app.up()
    with monkeypatch.context() as patch:
        deployed_from(app, patch, repository="git.example/a")
        assert app.lmi("up", "--yes", *CHANGED).code == 0
    assert Path("tiny.yaml").exists()
