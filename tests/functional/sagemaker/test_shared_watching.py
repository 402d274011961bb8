"""Traffic, idleness, dashboard and cost of models on a shared endpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from tests.functional.sagemaker.test_expiry import before_the_lock
from tests.functional.sagemaker.test_idle import IDLE, used
from tests.functional.sagemaker.test_many import rows
from tests.functional.sagemaker.test_shared_endpoint import GPUS, up, write
from tests.functional.sagemaker.test_watching import BUSY
from tests.support.cloud_app import CloudApp


def serving(app: CloudApp, *names: str) -> None:
    for name in names:
        write(name)
        up(app, name)


def test_status_shows_the_last_hour_of_the_model(app: CloudApp) -> None:
    serving(app, "chat", "code")
    app.cloud.metrics.found["chat"] = BUSY
    shown = app.lmi("status", "chat")
    assert "traffic  1,204 requests in the last hour, 3 with a 4xx, 1 with a 5xx" in shown.out
    assert "use      GPU 71 % on average, GPU memory 91 % at most, memory 24 % at most" in shown.out
    assert app.lmi("status", "chat", "--json").result["metrics"]["requests"] == 1204
    assert "CloudWatch has no requests of the last hour" in app.lmi("status", "code").out


def test_status_and_list_name_the_endpoint_and_its_price(app: CloudApp) -> None:
    serving(app, "chat", "code")
    app.cloud.prices.hourly_of[GPUS] = 7.0
    shown = app.lmi("status", "chat").out
    assert f"costs    part of $7.00 an hour of team (1 x {GPUS}; " in shown
    assert "): its models share its instances\n" in shown
    assert "endpoint InService, 1 of 1 copies on the shared endpoint team\n" in shown
    listed = rows(app.lmi("ls", "--json"))
    assert [row["costs"].partition(" (")[0] for row in listed.values()] == [
        "part of $7.00 an hour of team"
    ] * 2
    assert "part of $7.00 an hour of team  " in app.lmi("ls").out


def test_status_shows_no_price_that_it_does_not_know(app: CloudApp) -> None:
    serving(app, "chat")
    shown = app.lmi("status", "chat")
    assert (shown.code, "costs" in shown.out) == (0, False)


def test_status_of_the_endpoint_measures_none_of_its_models(app: CloudApp) -> None:
    serving(app, "chat")
    shown = app.lmi("status", "team", "--json")
    assert (shown.code, shown.result["metrics"]) == (0, None)


def test_only_idle_models_are_deleted_and_the_last_one_with_the_endpoint(app: CloudApp) -> None:
    account = app.cloud.account_state
    serving(app, "chat", "code")
    app.clock.sleep(8000)
    used(app, "code", seconds_ago=7000)
    result = app.lmi(*IDLE, "--yes", "--json")
    assert (result.code, [*rows(result)], result.result["ended"]) == (0, ["chat"], 1), result.err
    assert ([*account.components], [*account.endpoints]) == (["code"], ["team"])
    app.clock.sleep(8000)
    assert [*rows(app.lmi(*IDLE, "--yes", "--json"))] == ["code"]
    assert (account.components, account.endpoints, account.configs) == ({}, {}, {})


def test_young_model_is_not_idle_and_its_endpoint_never_is(app: CloudApp) -> None:
    serving(app, "chat")
    app.clock.sleep(8000)
    used(app, "chat", seconds_ago=1)
    serving(app, "code")
    result = app.lmi(*IDLE, "--yes", "--json")
    assert (result.code, rows(result)) == (0, {})
    assert sorted(app.cloud.account_state.components) == ["chat", "code"]


def test_request_to_the_model_during_the_prompt_keeps_it(app: CloudApp) -> None:
    serving(app, "chat")
    app.clock.sleep(8000)
    before_the_lock(app, lambda: used(app, "chat", seconds_ago=1))
    result = app.lmi(*IDLE, "--yes", "--json")
    assert (result.code, result.result["kept"]) == (0, ["chat"]), result.out
    assert [*app.cloud.account_state.components] == ["chat"]


def test_dashboard_has_the_metrics_of_the_model_and_of_its_instances(app: CloudApp) -> None:
    serving(app, "chat")
    found = json.loads(app.lmi("dashboard", "chat", "--print").out)
    charts = {
        one["properties"]["title"]: one["properties"]["metrics"]
        for one in found["widgets"]
        if one["type"] == "metric"
    }
    model, instances = ["InferenceComponentName", "chat"], ["EndpointName", "team", "VariantName", "main"]
    assert ["AWS/SageMaker", "Invocation5XXErrors", *model] in charts["Requests a minute"]
    assert charts["Requests a minute and copy"] == [["AWS/SageMaker", "InvocationsPerCopy", *model]]
    gpu = charts["GPU (% of what its copies have reserved)"]
    assert ["/aws/sagemaker/InferenceComponents", "GPUMemoryUtilizationNormalized", *model] in gpu
    gpu = charts["Instances of team: GPU (%; each GPU adds up to 100)"]
    assert ["/aws/sagemaker/Endpoints", "GPUUtilization", *instances] in gpu
    assert "on the shared endpoint team" in found["widgets"][0]["properties"]["markdown"]


def test_dashboard_is_deleted_with_its_model_and_leaves_those_of_the_others(app: CloudApp) -> None:
    serving(app, "chat", "code")
    for name in ("chat", "code"):
        assert app.lmi("dashboard", name).code == 0
    up(app, "chat", "--set", "options.dtype=fp32")
    assert [*app.cloud.dashboards.found] == ["lmi-chat-us-east-1", "lmi-code-us-east-1"]
    down = app.lmi("down", "chat", "--yes")
    assert (down.code, "remove the CloudWatch dashboard of chat" in down.err) == (0, True)
    assert [*app.cloud.dashboards.found] == ["lmi-code-us-east-1"]


def test_model_that_is_created_again_begins_without_the_dashboard_of_the_one_before(app: CloudApp) -> None:
    account = app.cloud.account_state
    serving(app, "chat")
    app.lmi("dashboard", "chat")
    component = account.components["chat"]
    failed = replace(component.observed, status="Failed", reason="no capacity")
    account.components["chat"] = replace(component, observed=failed)
    up(app, "chat")
    assert account.components["chat"].observed.status == "InService"
    assert app.cloud.dashboards.found == {}


def test_deleted_model_gets_no_dashboard(app: CloudApp) -> None:
    serving(app, "chat")
    account = app.cloud.account_state
    account.components.clear()
    result = app.lmi("dashboard", "chat")
    assert "chat: the model was deleted" in result.err
    assert (result.code, app.cloud.dashboards.found) == (1, {})


def test_endpoint_itself_has_no_dashboard(app: CloudApp) -> None:
    serving(app, "chat")
    refused = app.lmi("dashboard", "team")
    assert "it answers no requests itself: a shared endpoint" in refused.err
    assert (refused.code, app.cloud.dashboards.found) == (1, {})


def test_shared_endpoint_costs_once_with_its_models_named(app: CloudApp) -> None:
    app.cloud.prices.hourly_of[GPUS] = 7.0
    serving(app, "chat", "code")
    app.clock.sleep(7200)
    result = app.lmi("cost", "--json")
    found = rows(result)
    assert (result.code, [*found]) == (0, ["team"]), result.out
    row = found["team"]
    assert (row["models"], row["instance"], row["count"]) == (["chat", "code"], GPUS, 1)
    assert (row["end"], row["hours"] >= 2.0) == ("", True)
    assert row["cost"] == result.result["total"] > 0
    assert result.result["projected"] > result.result["total"]
    assert any("numbers of instances that a shared endpoint" in text for text in result.result["not_seen"])
    app.lmi("down", "chat", "--yes")
    assert rows(app.lmi("cost", "--json"))["team"]["models"] == ["code"]
    assert "  code  " in app.lmi("cost").out


def test_shared_endpoint_that_a_later_clock_created_has_no_hours_yet(app: CloudApp) -> None:
    app.cloud.prices.hourly_of[GPUS] = 7.0
    serving(app, "chat")
    found = app.cloud.account_state.endpoints["team"]
    later = (app.clock.now() + timedelta(hours=2)).isoformat()
    found.observed = replace(found.observed, created=later)
    result = app.lmi("cost", "--json")
    assert (rows(result)["team"]["hours"], result.result["total"]) == (0.0, 0)
    assert result.result["projected"] > 0


def test_shared_endpoint_costs_by_its_number_of_instances_beside_others(app: CloudApp) -> None:
    app.up()
    write("chat", endpoint=", count: 2")
    up(app, "chat")
    app.clock.sleep(3600)
    found = rows(app.lmi("cost", "--json"))
    assert [*found] == ["tiny", "team"]
    assert (found["team"]["count"], found["tiny"]["models"]) == (2, [])
    assert rows(app.lmi("cost", "--month", "2001-02", "--json")) == {}


def test_shared_endpoint_that_is_gone_costs_nothing(app: CloudApp) -> None:
    serving(app, "chat")
    app.lmi("down", "chat", "--yes")
    result = app.lmi("cost", "--json")
    assert (result.code, rows(result)) == (0, {})
