"""Transfer jobs are seen: while they run they cost, whoever began them and whatever the tag search knows."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.sagemaker.transfer_job import SeenJob
from lmi_deploy.errors import AccessError
from tests.support.action_failures import Killed
from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe

ONE_TYPE = RECIPE.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g5.xlarge")
BIG = ONE_TYPE + "weights: {via: job, job: {instance_type: ml.m5.4xlarge, count: 2}}\n"
COST = "$1.84 an hour (2 x ml.m5.4xlarge; a fake of 2026-01-01)"
PLANNED = COST.replace(";", " at $0.92;")


@pytest.fixture
def by_job(house: CloudHouse) -> CloudHouse:
    """A job that goes on for ever, and a tag search that knows nothing for an hour."""
    write_recipe(BIG)
    house.cloud.jobs.seconds = 1e9
    house.cloud.world.tag_lag = 3600.0
    return house


def end_early(house: CloudHouse, error: type[BaseException], *argv: str) -> str:
    """An `up` that ends when its job is begun and looked at a few times; what it said."""
    jobs, seen = house.cloud.jobs, house.cloud.jobs.job
    looks: list[str] = []

    def job(name: str) -> SeenJob | None:
        found = seen(name)
        looks.extend([name] if found and found.is_running else [])
        if len(looks) == 3:
            raise error
        return found

    jobs.job = job  # type: ignore[method-assign]
    try:
        ran = house.lmi("up", "--yes", *argv)
        assert ran.code == 130
        return ran.err
    except Killed:
        return ""
    finally:
        jobs.job = seen  # type: ignore[method-assign]


def running(house: CloudHouse) -> list[str]:
    found = (house.cloud.jobs.job(name) for name in house.cloud.jobs.started)
    return [job.name for job in found if job and job.is_running]


def test_an_interrupted_up_names_the_job_that_runs_on_and_its_price(by_job: CloudHouse) -> None:
    told = end_early(by_job, KeyboardInterrupt)
    (job,) = running(by_job)
    assert f"the transfer job {job} is InProgress and goes on costing {COST}" in told
    assert "`lmi up` goes on watching it, `lmi down tiny` stops it" in told


def test_a_failed_up_names_it_too(by_job: CloudHouse) -> None:
    ran = by_job.lmi("up", "--yes", "--json")
    (job,) = running(by_job)
    error = ran.result["error"]
    assert (ran.code, "still at work" in error["message"]) == (1, True)
    assert f"the transfer job {job} is InProgress and goes on costing {COST}" in error["hint"]


def test_status_and_ls_show_it(by_job: CloudHouse) -> None:
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


def test_down_stops_it_though_the_tag_search_does_not_show_it(by_job: CloudHouse) -> None:
    end_early(by_job, Killed)
    assert running(by_job)
    ran = by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes")
    assert (ran.code, running(by_job)) == (0, []), ran.err
    assert "stop the job tiny-" in ran.err
    assert by_job.kept_in_cloud() == []


def test_down_does_not_end_before_it_has(by_job: CloudHouse) -> None:
    """Stopping costs, too: it is waited for; one that does not end is an error, and the record stays."""
    end_early(by_job, Killed)
    by_job.cloud.jobs.grace = 1e9
    ran = by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes")
    (job,) = running(by_job)
    assert (ran.code, f"{job}: not ended after" in ran.err) == (1, True), ran.err
    assert by_job.record().intents
    by_job.cloud.jobs.stopping.clear()
    by_job.cloud.jobs.grace = 30.0
    assert by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes").code == 0
    assert running(by_job) == []


def test_an_up_that_needs_it_no_more_stops_it(by_job: CloudHouse) -> None:
    end_early(by_job, Killed)
    assert running(by_job)
    write_recipe()
    ran = by_job.up()
    assert "stop the job tiny-" in ran.err
    assert running(by_job) == []
    assert by_job.lmi("status", "tiny").code == 0


def test_one_that_is_done_already_is_watched_to_its_end(by_job: CloudHouse) -> None:
    """Its manifest is written by one instance, and the others cost until they have ended."""
    end_early(by_job, Killed)
    (job,) = running(by_job)
    by_job.carry(job)
    by_job.cloud.jobs.seconds = 600.0
    by_job.up()
    assert running(by_job) == []


def test_another_attempt_is_found_by_the_name_of_the_first(by_job: CloudHouse) -> None:
    by_job.cloud.jobs.seconds, by_job.cloud.jobs.reason = 60.0, "out of disk"
    assert by_job.lmi("up", "--yes").code == 1
    by_job.cloud.jobs.seconds, by_job.cloud.jobs.reason = 1e9, ""
    end_early(by_job, Killed)
    (job,) = running(by_job)
    assert job.endswith("-2")
    assert by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes").code == 0
    assert running(by_job) == []


def test_somebody_elses_job_of_that_name_is_left_alone(by_job: CloudHouse) -> None:
    end_early(by_job, Killed)
    (job,) = running(by_job)
    world = by_job.cloud.world
    world.tags[world.arn("processing-job", job)] = (("owner", "somebody"),)
    assert by_job.lmi("down", "tiny", "--target", "sagemaker", "--yes").code == 0
    assert running(by_job) == [job]


def test_gc_shows_one_that_nobody_waits_for(by_job: CloudHouse) -> None:
    end_early(by_job, Killed)
    (job,) = running(by_job)
    by_job.clock.sleep(4000)
    ran = by_job.lmi("gc", "--yes", "--json")
    (row,) = [line for line in ran.lines if line.get("name") == "tiny"]
    assert (ran.code, row["why"]) == (0, f"no lmi waits for its transfer job {job}, which costs {COST}"), (
        ran.err
    )
    assert running(by_job) == []
    assert [arn for arn in by_job.kept_in_cloud() if "processing-job" not in arn] == []


def test_gc_leaves_one_alone_that_an_up_waits_for(by_job: CloudHouse) -> None:
    end_early(by_job, Killed)
    by_job.clock.sleep(4000)
    with by_job.depot().lock.hold("tiny"):
        ran = by_job.lmi("gc", "--yes", "--json")
    assert not [line for line in ran.lines if line.get("name") == "tiny"]
    assert running(by_job)


def test_the_plan_tells_its_price_and_the_bound_counts_it(by_job: CloudHouse) -> None:
    told = by_job.lmi("plan").out
    assert f"transfer job: {PLANNED}, while it runs" in told
    refused = by_job.lmi("up", "--yes", "--max-hourly", "1.5")
    assert refused.code == 5
    assert f"the transfer job of tiny costs {PLANNED}" in refused.err
    assert not by_job.cloud.jobs.started
    assert by_job.lmi("plan", "--max-hourly", "1.9").code == 0
    unknown = by_job.lmi("plan", "--set", "weights.job.instance_type=ml.c5.xlarge", "--max-hourly", "100")
    assert (unknown.code, "nobody could tell what the transfer job on ml.c5.xlarge costs" in unknown.err) == (
        5,
        True,
    )


def test_the_bound_counts_what_serves_meanwhile(house: CloudHouse) -> None:
    house.up()
    house.hub.models["org/tiny"]["config.json"] += b"\n"
    write_recipe(BIG)
    ran = house.lmi("plan", "--max-hourly", "3")
    assert (ran.code, f"costs {PLANNED} beside the $1.41 of what serves" in ran.err) == (5, True), ran.err
    assert house.lmi("plan", "--max-hourly", "3.3").code == 0


def test_a_rollback_keeps_to_the_bound(house: CloudHouse) -> None:
    house.up("--set", "endpoint.count=2")
    house.up()
    refused = house.lmi("rollback", "tiny", "--yes", "--max-hourly", "2")
    assert (refused.code, "may cost $2.82 an hour (2 x ml.g5.xlarge" in refused.err) == (5, True), refused.err
    ran = house.lmi("rollback", "tiny", "--yes", "--max-hourly", "3")
    assert (ran.code, "cost: $2.82 an hour" in ran.err) == (0, True), ran.err


def test_one_that_may_not_be_asked_for_stops_no_up_and_no_status(house: CloudHouse) -> None:
    write_recipe(BIG)
    house.up()
    write_recipe()
    jobs = house.cloud.jobs

    def job(name: str) -> SeenJob | None:
        raise AccessError(f"{name}: denied", hint="ask")

    jobs.job = job  # type: ignore[method-assign]
    assert house.lmi("status", "tiny").code == 0
    house.up("--set", "options.dtype=fp32")
