"""`lmi cost`: hours and prices of a month by the records, what still runs, and what it cannot see."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest

from lmi_deploy.domain.record import KEPT_GENERATIONS, Generation
from lmi_deploy.errors import AccessError
from tests.functional.sagemaker.test_candidate import WEIGHTED
from tests.functional.sagemaker.test_many import rows, serving
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.crash_scenarios import ADOPT, made_by_hand


def current(app: CloudApp, name: str) -> Generation:
    record = app.depot().records.read(name)
    assert record is not None
    assert record.current is not None
    return record.current


def test_hours_and_cost_of_what_runs(app: CloudApp) -> None:
    serving(app, "a", "b")
    app.clock.sleep(7200)
    result = app.lmi("cost", "--json")
    assert result.code == 0, result.out
    row = rows(result)["b"]
    assert (row["instance"], row["count"], row["hours"], row["end"]) == ("ml.g5.xlarge", 1, 2.1, "")
    created = datetime.fromisoformat(app.cloud.account_state.endpoints["b"].observed.created)
    assert row["start"] == created.isoformat(timespec="seconds") <= current(app, "b").since
    assert 2.82 <= row["cost"] < 3
    total = result.result["total"]
    assert 5.6 < total < 6
    assert result.result["projected"] > total
    assert any("autoscaling" in text for text in result.result["not_seen"])
    words = app.lmi("cost")
    assert "not in it: deployments that were deleted" in words.err


def test_adopted_endpoint_costs_since_it_was_created(app: CloudApp) -> None:
    made_by_hand(app)
    assert app.lmi(*ADOPT).code == 0
    app.clock.sleep(7200)
    (row,) = rows(app.lmi("cost", "--json")).values()
    created = datetime.fromisoformat(app.cloud.account_state.endpoints["tiny"].observed.created)
    assert row["start"] == created.isoformat(timespec="seconds")
    assert row["hours"] == round((7200 + 1000) / 3600, 1)


def test_an_updated_deployment_has_a_row_for_each_generation(app: CloudApp) -> None:
    serving(app, "a")
    app.clock.sleep(3600)
    app.up("--set", "endpoint.count=2")
    app.clock.sleep(3600)
    found = [line for line in app.lmi("cost", "--json").lines if line["event"] == "row"]
    assert [row["count"] for row in found] == [1, 2]
    assert found[0]["end"] == found[1]["start"]
    assert found[1]["hours"] == 2.0


def test_change_in_place_and_forgotten_generations_keep_the_time_that_was_billed(app: CloudApp) -> None:
    app.up()
    since = current(app, "tiny").since
    app.clock.sleep(3600)
    app.up("--set", "endpoint.tags={team: other}")
    assert current(app, "tiny").since == since
    for number in range(KEPT_GENERATIONS + 1):
        app.clock.sleep(3600)
        app.up("--set", f"options.max_model_len={512 + number}")
    found = [line for line in app.lmi("cost", "--json").lines if line["event"] == "row"]
    created = datetime.fromisoformat(app.cloud.account_state.endpoints["tiny"].observed.created)
    assert len(found) == 1 + KEPT_GENERATIONS + 1, "those that the record forgot, too"
    assert found[0]["start"] == created.isoformat(timespec="seconds")
    assert sum(row["hours"] for row in found) >= KEPT_GENERATIONS + 2
    assert any("oldest generation" in text for text in app.lmi("cost", "--json").result["not_seen"])


def test_rollback_gives_no_past_hour_to_another_generation(app: CloudApp) -> None:
    """Ten days of one type, an hour of a dearer one, and back: the ten days stay as they were."""
    app.up()
    app.clock.sleep(240 * 3600)
    before = billed(app)
    app.up("--set", "instance_type=ml.g5.12xlarge")
    app.clock.sleep(3600)
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    app.clock.sleep(3600)
    after = billed(app)
    assert after["ml.g5.12xlarge"] == pytest.approx(1, abs=0.5)
    assert before["ml.g5.xlarge"] < after["ml.g5.xlarge"] < before["ml.g5.xlarge"] + 2


def test_endpoint_that_may_have_no_instance_keeps_its_row(app: CloudApp) -> None:
    scaling = "autoscaling: {min: 0, max: 2, backlog_per_instance: 5}"
    write_recipe(RECIPE + f"endpoint: {{asynchronous: {{}}, {scaling}}}\n")
    app.up()
    assert rows(app.lmi("cost", "--json"))["tiny"]["count"] == 0


def billed(app: CloudApp) -> Counter[str]:
    """Hours by instance type, over all months so far."""
    hours = Counter[str]()
    for month in ("2026-11", "2026-12"):
        for line in app.lmi("cost", "--json", "--month", month).lines:
            if line["event"] == "row":
                hours[line["instance"]] += line["hours"]
    return hours


def test_each_version_of_an_endpoint_with_a_candidate_is_named(app: CloudApp) -> None:
    write_recipe(WEIGHTED)
    app.up()
    app.clock.sleep(3600)
    found = [line for line in app.lmi("cost", "--json").lines if line["event"] == "row"]
    assert [row["variant"] for row in found] == ["main", "candidate"]
    serving(app, "b")
    assert rows(app.lmi("cost", "--json"))["b"]["variant"] == ""


def test_future_month_is_refused_and_a_past_one_is_complete(app: CloudApp) -> None:
    future = app.lmi("cost", "--month", "2999-01")
    assert (future.code, "2999-01: it is in the future" in future.err) == (2, True), future.err
    past = app.lmi("cost", "--month", "2001-02")
    assert (past.code, "2001-02: $0.00" in past.err) == (0, True), past.err


def test_a_month_without_deployments_costs_nothing(app: CloudApp) -> None:
    serving(app, "a")
    result = app.lmi("cost", "--month", "2001-02", "--json")
    assert (result.code, result.result["total"], rows(result)) == (0, 0, {})


@pytest.mark.parametrize("record", [b"", b"<html>", b"[" * 100_000, b'{"schema": 99}'])
def test_endpoint_that_no_record_explains_costs_what_aws_says(app: CloudApp, record: bytes) -> None:
    serving(app, "a")
    app.cloud.stores[app.bucket].objects["deployments/a/record.json"] = record
    if not record:
        app.depot().records.remove("a")
    app.clock.sleep(7200)
    result = app.lmi("cost", "--json")
    row = rows(result)["a"]
    assert (row["instance"], row["count"], row["hours"], row["end"]) == ("ml.g5.xlarge", 1, 2.1, "")
    assert 2.82 <= result.result["total"] < 3


def test_unknown_price_is_reported_and_not_counted(app: CloudApp) -> None:
    serving(app, "a")
    app.clock.sleep(3600)
    app.cloud.prices.hourly_of.clear()
    result = app.lmi("cost", "--json")
    assert (result.result["unpriced"], result.result["total"]) == (["ml.g5.xlarge"], 0)
    assert rows(result)["a"]["cost"] is None


def test_old_price_is_said(app: CloudApp) -> None:
    serving(app, "a")
    app.cloud.prices.date = "2025-01-26"
    words = "the price of ml.g5.xlarge is older than half a year: `lmi catalog refresh --region us-east-1`"
    assert words in app.lmi("cost").err


def test_without_the_right_to_list_endpoints_nothing_is_counted(app: CloudApp) -> None:
    serving(app, "a")
    denied = AccessError("list of endpoints: may not sagemaker:ListEndpoints", hint="allow it")
    app.cloud.account_state.failures.before["endpoints"] = [denied]
    result = app.lmi("cost")
    assert (result.code, "may not sagemaker:ListEndpoints" in result.err) == (1, True)


@pytest.mark.parametrize("month", ["2026", "2026-13", "last"])
def test_text_that_names_no_month_is_refused(app: CloudApp, month: str) -> None:
    assert app.lmi("cost", "--month", month).code == 2


def test_scheduled_bounds_count_as_the_lowest_number(app: CloudApp) -> None:
    """What a schedule adds is not in it, and says so; what it removes is."""
    night = "night: {schedule: cron(0 20 ? * * *), min: 2}"
    scaling = f"{{min: 3, max: 5, invocations_per_instance: 60, scheduled: {{{night}}}}}"
    app.up("--set", f"endpoint.autoscaling={scaling}")
    app.clock.sleep(3600)
    result = app.lmi("cost", "--json")
    [row] = rows(result).values()
    assert (row["count"], row["autoscaled"], row["hours"]) == (2, True, 2.2)
    assert any("its schedules" in text for text in result.result["not_seen"])


def test_jobs_have_rows_and_a_running_one_is_not_projected(app: CloudApp) -> None:
    write_recipe(RECIPE + "weights: {via: job}\n")
    app.up()
    found = {row["variant"]: row for row in app.lmi("cost", "--json").lines if row["event"] == "row"}
    job = found["transfer job"]
    assert (job["name"], job["instance"], job["hours"]) == ("tiny", "ml.m5.4xlarge", 0.2)
    assert job["end"] > job["start"]


def test_jobs_that_may_not_be_listed_are_named(app: CloudApp) -> None:
    write_recipe(RECIPE + "weights: {via: job}\n")
    app.up()
    denied = AccessError("list of jobs: may not sagemaker:ListProcessingJobs", hint="allow it")
    app.cloud.account_state.failures.before["since"] = [denied]
    result = app.lmi("cost")
    assert (result.code, "not in it: jobs: list of jobs: may not sagemaker" in result.err) == (0, True)
