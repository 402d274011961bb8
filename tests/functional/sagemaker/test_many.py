"""Many deployments at once: lists without a look at each, what they cannot tell, and failures of a part."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import TAG
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings
from lmi_deploy.errors import AccessError
from lmi_deploy.workflows.list_deployments import MOST_READ
from tests.support.cloud_app import RECIPE, CloudApp, Ran, write_recipe


def job_settings() -> JobSettings:
    return JobSettings(
        role="r",
        image="i",
        instance="ml.m5.large",
        count=1,
        volume_gb=30,
        command=(),
        environment=(),
        inputs=(),
        timeout=3600,
    )


def serving(app: CloudApp, *names: str) -> None:
    for name in names:
        write_recipe(RECIPE.replace("name: tiny", f"name: {name}"))
        app.up()
    app.cloud.account_state.calls.clear()


def rows(ran: Ran) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in ran.lines if line["event"] == "row"}


def test_all_reads_no_record_of_a_deployment_with_an_endpoint(app: CloudApp) -> None:
    serving(app, "a", "b")
    listed = app.lmi("ls", "--all", "--json")
    assert app.cloud.account_state.calls == ["tagged", "endpoints"]
    for row in rows(listed).values():
        assert (row["standing"], row["model"]) == ("InService", "org/tiny")
        assert (row["costs"], row["address"], row["since"]) == (None, None, None)
        assert row["created"]
    words = app.lmi("ls", "--all")
    assert "None" not in words.out
    assert (
        "2 deployments from AWS's lists, without address, adapters, memory, costs, since, by: " in words.err
    )
    assert "--long" in words.err


def test_long_reads_every_record(app: CloudApp) -> None:
    serving(app, "a", "b")
    found = rows(app.lmi("ls", "--all", "--long", "--json"))
    assert {row["standing"] for row in found.values()} == {"in-step"}
    assert "$1.41 an hour" in found["a"]["costs"]


def test_a_deployment_without_an_endpoint_is_read(app: CloudApp) -> None:
    serving(app, "a", "b")
    account = app.cloud.account_state
    del account.endpoints["a"]
    account.tags.pop(account.arn("endpoint", "a"))
    found = rows(app.lmi("ls", "--all", "--json"))
    assert (found["a"]["standing"], found["b"]["standing"]) == ("drifted", "InService")


def test_an_endpoint_that_the_tag_search_still_shows_is_no_endpoint(app: CloudApp) -> None:
    serving(app, "a")
    del app.cloud.account_state.endpoints["a"]
    assert rows(app.lmi("ls", "--all", "--json"))["a"]["standing"] == "drifted"


def test_a_deleted_deployment_that_the_tag_search_still_shows_is_not_listed(app: CloudApp) -> None:
    serving(app, "a")
    account = app.cloud.account_state
    shown = account.tags[account.arn("endpoint", "a")]
    assert app.lmi("down", "a", "--yes").code == 0
    account.tags[account.arn("endpoint", "a")] = shown
    assert rows(app.lmi("ls", "--all", "--json")) == {}


def test_an_endpoint_that_is_not_ours_is_not_listed(app: CloudApp) -> None:
    serving(app, "a", "b")
    for path in (app.root / "state").rglob("*.json"):
        path.unlink()
    account = app.cloud.account_state
    account.tags.pop(account.arn("endpoint", "a"))
    account.tags[account.arn("endpoint", "b")] = ((TAG, "other"),)
    for kind in (account.models, account.configs):
        for resource in kind.values():
            account.tags.pop(resource.arn)
    assert rows(app.lmi("ls", "--all", "--json")) == {}


@pytest.mark.parametrize("command", ["ls", "gc"])
def test_jobs_that_have_ended_are_not_described_one_by_one(app: CloudApp, command: str) -> None:
    serving(app, "a")
    account, jobs = app.cloud.account_state, app.cloud.jobs
    settings, jobs.work = job_settings(), lambda job: None
    for number in range(300):
        jobs.start(f"gone-{number:010x}", settings, ((TAG, "gone"),))
        jobs.start(f"a-{number:010x}", settings, ((TAG, "a"),))
    app.clock.sleep(jobs.seconds + 1)
    jobs.start("left-0123456789", settings, ((TAG, "left"),))
    account.calls.clear()
    listed = app.lmi("ls", "--all", "--json") if command == "ls" else app.lmi("gc", "--yes", "--json")
    counts = Counter(account.calls)
    assert counts["running"] == 1
    assert counts["job"] < 30, "only the one that runs, until it has stopped"
    assert "left" in listed.out
    assert "gone" not in listed.out


def test_status_of_a_deployment_with_many_transfers_describes_none_that_has_ended(app: CloudApp) -> None:
    serving(app, "a")
    app.cloud.jobs.work = lambda job: None
    for number in range(300):
        app.cloud.jobs.start(f"a-{number:010x}", job_settings(), ((TAG, "a"),))
    app.clock.sleep(app.cloud.jobs.seconds + 1)
    app.cloud.jobs.start("a-ffffffffff", job_settings(), ((TAG, "a"),))
    app.cloud.account_state.calls.clear()
    status = app.lmi("status", "a", "--json")
    counts = Counter(app.cloud.account_state.calls)
    assert (counts["running"], counts["job"]) == (1, 1)
    assert "a-ffffffffff" in status.out


def test_without_the_right_to_list_endpoints_the_tags_are_shown(app: CloudApp) -> None:
    serving(app, "a", "b")
    denied = AccessError("list of endpoints: may not sagemaker:ListEndpoints", hint="allow it")
    app.cloud.account_state.failures.before["endpoints"] = [denied]
    result = app.lmi("ls", "--all", "--json")
    assert {row["standing"] for row in rows(result).values()} == {"unknown"}
    assert result.code == 0
    assert "the standing of endpoints is unknown: us-east-1: list of endpoints" in result.out


def test_lists_replace_reads_where_this_machine_knows_many(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(app, *(f"m-{number:02d}" for number in range(MOST_READ + 1)))
    found = rows(app.lmi("ls", "--json"))
    assert app.cloud.account_state.calls == ["tagged", "endpoints"]
    assert [*found] == sorted(found)
    assert {row["standing"] for row in found.values()} == {"InService"}
    long = rows(app.lmi("ls", "--long", "--json"))
    assert {row["standing"] for row in long.values()} == {"in-step"}


def test_region_leaves_the_others_out(app: CloudApp) -> None:
    serving(app, "a")
    assert rows(app.lmi("ls", "--region", "eu-west-1", "--json")) == {}
    assert [*rows(app.lmi("ls", "--region", "us-east-1", "--json"))] == ["a"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--all-regions",), "they need --all"),
        (("--profile", "x"), "they need --all"),
        (("--all", "--all-regions", "--region", "us-east-1"), "both name regions"),
    ],
)
def test_contradicting_options_are_refused(app: CloudApp, argv: tuple[str, ...], message: str) -> None:
    result = app.lmi("ls", *argv)
    assert (result.code, message in result.err) == (2, True)
