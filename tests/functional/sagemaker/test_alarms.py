"""`endpoint.alarms`: created after the endpoint serves, changed alone, drift, `status`, `down`, `gc`, rollback."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.sagemaker.alarm_settings import ObservedAlarms
from lmi_deploy.domain.sagemaker.resource_settings import TAG, TAG_BUCKET
from lmi_deploy.errors import CloudError
from tests.functional.sagemaker.test_scale import actions, deployed
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"


def watched(more: str = "") -> str:
    return f"{RECIPE}endpoint:\n  tags: {{team: search}}\n  alarms:\n    topic: {TOPIC}\n{more}"


def live(app: CloudApp) -> ObservedAlarms:
    return app.cloud.alarms.found["tiny"]


def rules(app: CloudApp) -> dict[str, tuple[float, str]]:
    return {each.kind: (each.threshold, each.statistic) for each in live(app).settings.rules}


def test_alarms_come_last_and_are_shown(app: CloudApp) -> None:
    write_recipe(watched())
    plan = app.lmi("plan")
    words = f"set the alarms of tiny (errors-5xx, latency, memory), which notify {TOPIC}"
    assert words in " ".join(plan.out.split())
    assert actions(app.lmi("plan", "--json"))[-2:] == ["probe-endpoint", "set-alarms"]
    app.up()
    assert rules(app) == {
        "errors-5xx": (5.0, "Average"),
        "latency": (30_000.0, "p99"),
        "memory": (90.0, "Maximum"),
    }
    assert app.lmi("plan", "--exit-code").code == 0
    status = app.lmi("status", "tiny")
    assert status.code == 0
    assert "alarms   errors-5xx INSUFFICIENT_DATA, latency INSUFFICIENT_DATA" in status.out
    assert app.lmi("status", "tiny", "--json").result["alarms"].startswith("errors-5xx INSUFFICIENT")
    tagged = [each for each in app.cloud.cloud().tagged.of("tiny") if each.kind == "alarm"]
    assert len(tagged) == 3
    assert {(each.tag(TAG), bool(each.tag(TAG_BUCKET)), each.tag("team")) for each in tagged} == {
        ("tiny", True, "search")
    }


def test_recipe_without_alarms_makes_no_request_about_them(app: CloudApp) -> None:
    app.up()
    app.cloud.account_state.calls.clear()
    assert app.lmi("plan").code == 0
    assert {"alarms", "write_alarms", "subscriptions"} & {*app.cloud.account_state.calls} == set()


def test_changed_threshold_changes_only_the_alarms(app: CloudApp) -> None:
    deployed(app, watched())
    write_recipe(watched("    latency: {threshold_ms: 8000, percentile: 95}\n    memory: {enabled: false}\n"))
    plan = app.lmi("plan", "--json")
    assert actions(plan) == ["set-alarms"]
    found = {each["field"]: (each["before"], each["after"]) for each in plan.result["changes"]}
    assert found["alarms.latency"] == (
        "p99 from 30000 ms in the container on, in 3 of 5 x 60 s",
        "p95 from 8000 ms in the container on, in 3 of 5 x 60 s",
    )
    assert found["alarms.memory"] == ("Maximum from 90 % of the memory on, in 3 of 5 x 60 s", "")
    app.up()
    assert rules(app) == {"errors-5xx": (5.0, "Average"), "latency": (8000.0, "p95")}
    assert app.lmi("plan", "--exit-code").code == 0


def test_alarms_that_are_no_longer_in_the_recipe_are_removed(app: CloudApp) -> None:
    deployed(app, watched())
    write_recipe(RECIPE + "endpoint: {tags: {team: search}}\n")
    assert actions(app.lmi("plan", "--json")) == ["remove-alarms"]
    app.up()
    assert app.cloud.alarms.found == {}
    assert app.lmi("plan", "--exit-code").code == 0


def test_asynchronous_latency_is_half_of_an_hour(app: CloudApp) -> None:
    deployed(app, watched() + "  asynchronous: {}\n")
    assert rules(app)["latency"] == (1_800_000.0, "p99")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("deleted", "its alarms were deleted, not by lmi; `lmi up` creates them again"),
        ("disabled", "its alarms are disabled, and not by lmi: latency"),
        ("topic", f"its alarms were changed, not by lmi (alarms: errors-5xx, latency, memory to {TOPIC}2"),
        ("threshold", "(alarms.errors-5xx: Average from 50 %"),
        ("one less", "alarms.errors-5xx: none instead of Average from 5 %"),
    ],
)
def test_change_by_hand_is_drift_that_up_repairs(app: CloudApp, change: str, words: str) -> None:
    deployed(app, watched())
    found = live(app)
    settings, first = found.settings, found.settings.rules[0]
    changed = {
        "disabled": replace(found, states=(("latency", "disabled"),)),
        "topic": replace(found, settings=replace(settings, topic=f"{TOPIC}2")),
        "threshold": replace(
            found, settings=replace(settings, rules=(replace(first, threshold=50.0), *settings.rules[1:]))
        ),
        "one less": replace(found, settings=replace(settings, rules=settings.rules[1:])),
    }
    app.cloud.alarms.found.clear()
    if change != "deleted":
        app.cloud.alarms.found["tiny"] = changed[change]
    status = app.lmi("status", "tiny")
    assert status.code == 4
    assert words in " ".join(status.out.split())
    assert actions(app.lmi("plan", "--json")) == ["set-alarms"]
    app.up()
    assert live(app) == found
    assert app.lmi("status", "tiny").code == 0


def test_down_removes_them_first(app: CloudApp) -> None:
    deployed(app, watched())
    app.cloud.account_state.calls.clear()
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud.alarms.found == {}
    calls = app.cloud.account_state.calls
    assert calls.index("remove_alarms") < calls.index("delete_endpoint")


def test_down_that_cannot_remove_them_says_so_and_continues_later(app: CloudApp) -> None:
    deployed(app, watched())
    denied = CloudError("denied", hint="ask")
    app.cloud.account_state.failures.before["remove_alarms"] = [denied]
    result = app.lmi("down", "tiny", "--yes")
    assert result.code != 0
    assert app.cloud.account_state.endpoints == {}, "what costs money is gone"
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud.alarms.found == {}


def test_gc_finds_alarms_that_nothing_else_is_left_of(app: CloudApp) -> None:
    """Their tags alone lead to them: endpoint, record and bucket are gone."""
    deployed(app, watched())
    state = app.cloud.account_state
    alarms = dict(app.cloud.alarms.found)
    assert app.lmi("down", "tiny", "--yes").code == 0
    app.cloud.alarms.found |= alarms
    state.tagged("alarm", "tiny-alarm-latency", ((TAG, "tiny"), (TAG_BUCKET, app.bucket)))
    result = app.lmi("gc", "--yes")
    assert result.code == 0, result.err
    assert app.cloud.alarms.found == {}
    assert "tiny" in result.out + result.err


def test_endpoint_deleted_by_hand_gets_its_alarms_again(app: CloudApp) -> None:
    deployed(app, watched())
    app.cloud.account_state.endpoints.clear()
    app.cloud.account_state.drop("endpoint", "tiny")
    app.up()
    assert live(app).settings.topic == TOPIC
    assert app.lmi("plan", "--exit-code").code == 0


def test_rollback_leaves_the_alarms_as_they_are(app: CloudApp) -> None:
    deployed(app, RECIPE)
    write_recipe(watched().replace("tiny", "tiny", 1) + "options: {dtype: fp32}\n")
    app.up()
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    assert live(app).settings.topic == TOPIC
    assert app.lmi("status", "tiny").code == 0


def test_foreign_alarm_of_the_name_is_refused(app: CloudApp) -> None:
    app.cloud.alarms.foreign.add("tiny")
    write_recipe(watched())
    result = app.lmi("up", "--yes")
    assert (result.code, "it exists" in result.err) == (5, True)


def test_topic_that_does_not_exist_is_found_before_anything_is_created(app: CloudApp) -> None:
    app.cloud.topics.every = False
    write_recipe(watched())
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert f"endpoint.alarms.topic: {TOPIC}: no such topic" in " ".join(result.err.split())
    assert "aws sns create-topic --name on-call --region us-east-1" in " ".join(result.err.split())
    assert app.cloud.account_state.endpoints == {}


def test_topic_is_checked_also_when_only_the_alarms_change(app: CloudApp) -> None:
    deployed(app, RECIPE)
    app.cloud.topics.every = False
    write_recipe(watched())
    assert app.lmi("up", "--yes").code == 1
    assert app.cloud.alarms.found == {}


def test_topic_without_subscription_is_a_notice_with_the_command(app: CloudApp) -> None:
    app.cloud.topics.confirmed[TOPIC] = 0
    write_recipe(watched())
    result = app.lmi("plan")
    assert result.code == 0
    words = " ".join(result.err.split())
    assert f"no one is notified: {TOPIC} has no confirmed subscription" in words
    assert f"aws sns subscribe --topic-arn {TOPIC} --protocol email" in words


def test_topic_of_another_region_is_refused_with_the_region_of_the_account(app: CloudApp) -> None:
    write_recipe(watched().replace("us-east-1", "eu-west-1"))
    result = app.lmi("plan")
    assert result.code != 0
    assert "the topic is in eu-west-1, and the endpoint in us-east-1" in " ".join(result.err.split())


def test_export_refuses_them_by_their_key(app: CloudApp) -> None:
    write_recipe(watched())
    result = app.lmi("export", "tiny.yaml", "--format", "terraform")
    assert (result.code, "endpoint.alarms: `lmi export` cannot express it yet" in result.err) == (5, True)
