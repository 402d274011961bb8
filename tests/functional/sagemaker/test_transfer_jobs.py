"""Transfer jobs are tracked: they are billed while they run, regardless of who started them and what the tag
search shows."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.errors import AccessError
from tests.support.action_failures import Killed
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

ONE_TYPE = RECIPE.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g5.xlarge")
BIG = ONE_TYPE + "weights: {via: job, job: {instance_type: ml.m5.4xlarge, count: 2}}\n"
COST = "$1.84 an hour (2 x ml.m5.4xlarge; a fake of 2026-11-01)"
PLANNED = COST.replace(";", " at $0.92;")


@pytest.fixture
def by_job(app: CloudApp) -> CloudApp:
    """A job that never ends, and a tag search that lags by an hour."""
    write_recipe(BIG)
    app.cloud.jobs.seconds = 1e9
    app.cloud.account_state.tag_lag = 3600.0
    return app


def end_early(app: CloudApp, error: type[BaseException], *argv: str) -> str:
    """Runs an `up` that ends after it has started its job and polled it a few times; returns its output."""
    jobs, observed = app.cloud.jobs, app.cloud.jobs.job
    polls: list[str] = []

    def job(name: str) -> ObservedJob | None:
        found = observed(name)
        polls.extend([name] if found and found.is_running else [])
        if len(polls) == 3:
            raise error
        return found

    jobs.job = job  # type: ignore[method-assign]
    try:
        result = app.lmi("up", "--yes", *argv)
        assert result.code == 130
        return result.err
    except Killed:
        return ""
    finally:
        jobs.job = observed  # type: ignore[method-assign]


def running(app: CloudApp) -> list[str]:
    found = (app.cloud.jobs.job(name) for name in app.cloud.jobs.started)
    return [job.name for job in found if job and job.is_running]


def test_interrupted_up_names_the_running_job_and_its_price(by_job: CloudApp) -> None:
    output = end_early(by_job, KeyboardInterrupt)
    (job,) = running(by_job)
    assert f"the transfer job {job} is InProgress and still costs {COST}" in output
    assert "`lmi up` waits for it, `lmi down tiny --region us-east-1` stops it" in output


def test_failed_up_names_the_running_job_and_its_price(by_job: CloudApp) -> None:
    result = by_job.lmi("up", "--yes", "--json")
    (job,) = running(by_job)
    error = result.result["error"]
    assert (result.code, "still running" in error["message"]) == (1, True)
    assert f"the transfer job {job} is InProgress and still costs {COST}" in error["hint"]


def test_status_and_ls_show_the_running_job(by_job: CloudApp) -> None:
    end_early(by_job, Killed)
    (job,) = running(by_job)
    status = by_job.lmi("status", "tiny", "--target", "sagemaker", "--json")
    assert (status.code, status.result["standing"], status.result["cost"]) == (4, "starting", COST)
    assert [(one["name"], one["status"], one["count"]) for one in status.result["jobs"]] == [
        (job, "InProgress", 2)
    ]
    words = by_job.lmi("status", "tiny", "--target", "sagemaker").out
    assert f"{job} is InProgress, 2 x ml.m5.4xlarge" in words
    by_job.clock.sleep(4000)
    (row,) = by_job.lmi("ls", "--all", "--json").lines[:-1]
    assert (row["name"], row["standing"], row["costs"]) == ("tiny", "starting", COST)


def test_down_stops_a_job_that_the_tag_search_does_not_show(by_job: CloudApp) -> None:
    end_early(by_job, Killed)
    assert running(by_job)
    result = by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes")
    assert (result.code, running(by_job)) == (0, []), result.err
    assert "stop the job tiny-" in result.err
    assert by_job.cloud_resources() == []


def test_down_waits_until_the_job_has_stopped(by_job: CloudApp) -> None:
    """A stopping job is still billed: `down` waits for it; if it does not end, that is an error and the
    record stays."""
    end_early(by_job, Killed)
    by_job.cloud.jobs.grace = 1e9
    result = by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes")
    (job,) = running(by_job)
    assert (result.code, f"{job}: still not ended after" in result.err) == (1, True), result.err
    assert by_job.record().intents
    by_job.cloud.jobs.stopping.clear()
    by_job.cloud.jobs.grace = 30.0
    assert by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes").code == 0
    assert running(by_job) == []


def test_up_stops_a_job_it_no_longer_needs(by_job: CloudApp) -> None:
    end_early(by_job, Killed)
    assert running(by_job)
    write_recipe()
    result = by_job.up()
    assert "stop the job tiny-" in result.err
    assert running(by_job) == []
    assert by_job.lmi("status", "tiny").code == 0


def test_up_waits_for_a_job_that_has_written_its_manifest(by_job: CloudApp) -> None:
    """One instance writes the manifest, and the others are billed until they have ended."""
    end_early(by_job, Killed)
    (job,) = running(by_job)
    by_job.run_transfer_job(job)
    by_job.cloud.jobs.seconds = 600.0
    by_job.up()
    assert running(by_job) == []


def test_second_attempt_of_a_job_is_found_by_the_first_name(by_job: CloudApp) -> None:
    by_job.cloud.jobs.seconds, by_job.cloud.jobs.reason = 60.0, "out of disk"
    assert by_job.lmi("up", "--yes").code == 1
    by_job.cloud.jobs.seconds, by_job.cloud.jobs.reason = 1e9, ""
    end_early(by_job, Killed)
    (job,) = running(by_job)
    assert job.endswith("-2")
    assert by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes").code == 0
    assert running(by_job) == []


def test_foreign_job_of_the_same_name_is_left_running(by_job: CloudApp) -> None:
    end_early(by_job, Killed)
    (job,) = running(by_job)
    account = by_job.cloud.account_state
    account.tags[account.arn("processing-job", job)] = (("owner", "somebody"),)
    assert by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes").code == 0
    assert running(by_job) == [job]


def test_gc_stops_an_orphaned_job(by_job: CloudApp) -> None:
    end_early(by_job, Killed)
    (job,) = running(by_job)
    by_job.clock.sleep(4000)
    result = by_job.lmi("gc", "--yes", "--json")
    (row,) = [line for line in result.lines if line.get("name") == "tiny"]
    assert (result.code, row["why"]) == (0, f"no lmi waits for its transfer job {job}, which costs {COST}"), (
        result.err
    )
    assert running(by_job) == []
    assert [arn for arn in by_job.cloud_resources() if "processing-job" not in arn] == []


def test_gc_keeps_a_job_that_an_up_waits_for(by_job: CloudApp) -> None:
    end_early(by_job, Killed)
    by_job.clock.sleep(4000)
    with by_job.depot().lock.hold("tiny"):
        result = by_job.lmi("gc", "--yes", "--json")
    assert not [line for line in result.lines if line.get("name") == "tiny"]
    assert running(by_job)


def test_plan_shows_the_job_price_and_max_hourly_includes_it(by_job: CloudApp) -> None:
    output = by_job.lmi("plan").out
    assert f"transfer job: {PLANNED}, while it runs" in output
    refused = by_job.lmi("up", "--yes", "--max-hourly", "1.5")
    assert refused.code == 5
    assert f"the transfer job of tiny costs {PLANNED}" in refused.err
    assert not by_job.cloud.jobs.started
    assert by_job.lmi("plan", "--max-hourly", "1.9").code == 0
    unknown = by_job.lmi("plan", "--set", "weights.job.instance_type=ml.c5.xlarge", "--max-hourly", "100")
    assert (unknown.code, "the price of the transfer job on ml.c5.xlarge is unknown" in unknown.err) == (
        5,
        True,
    )


def test_max_hourly_includes_the_running_endpoint(app: CloudApp) -> None:
    app.up()
    app.hub.models["org/tiny"]["config.json"] += b"\n"
    write_recipe(BIG)
    result = app.lmi("plan", "--max-hourly", "3")
    assert (result.code, f"costs {PLANNED} in addition to $1.41 of the running endpoint" in result.err) == (
        5,
        True,
    ), result.err
    assert app.lmi("plan", "--max-hourly", "3.3").code == 0


def test_rollback_respects_max_hourly(app: CloudApp) -> None:
    app.up("--set", "endpoint.count=2")
    app.up()
    refused = app.lmi("rollback", "tiny", "--yes", "--max-hourly", "2")
    assert (refused.code, "may cost $2.82 an hour (2 x ml.g5.xlarge" in refused.err) == (5, True), refused.err
    result = app.lmi("rollback", "tiny", "--yes", "--max-hourly", "3")
    assert (result.code, "cost: $2.82 an hour" in result.err) == (0, True), result.err


def test_denied_job_lookup_stops_neither_up_nor_status(app: CloudApp) -> None:
    write_recipe(BIG)
    app.up()
    write_recipe()
    jobs = app.cloud.jobs

    def job(name: str) -> ObservedJob | None:
        raise AccessError(f"{name}: denied", hint="ask")

    jobs.job = job  # type: ignore[method-assign]
    assert app.lmi("status", "tiny").code == 0
    app.up("--set", "options.dtype=fp32")
