"""`lmi bench --via job` in a fake account: what it says and does around its machines, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_file import from_json
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.errors import AccessError
from tests.support.cloud_app import RECIPE, CloudApp
from tests.support.load_jobs import REQUESTS
from tests.support.local_app import Ran

BENCH = ("bench", "tiny", "--target", "sagemaker", "--cloudwatch-wait", "0")
BY_JOB = (*BENCH, "--via", "job", "--instances", "2")


@pytest.fixture
def deployed(app: CloudApp) -> CloudApp:
    app.up("--no-probe")
    app.cloud.jobs.seconds = 1e9
    app.cloud.prices.hourly_of["ml.c5.xlarge"] = 0.204
    return app


def report() -> Report:
    return from_json(Path("bench.json").read_text(encoding="utf-8"), "bench.json")


def left(app: CloudApp) -> list[str]:
    """Jobs and their objects."""
    objects = [one.key for store in app.cloud.stores.values() for one in store.list("jobs/")]
    return [*app.cloud.jobs.started, *objects]


def interrupted_at(app: CloudApp, look: int, error: type[BaseException], *argv: str) -> Ran:
    """A run that ends at the n-th look at its job."""
    jobs, observed = app.cloud.jobs, app.cloud.jobs.job
    looks: list[str] = []

    def job(name: str) -> ObservedJob | None:
        found = observed(name)
        looks.extend([name] * (found is not None))
        if len(looks) == look:
            raise error
        return found

    jobs.job = job  # type: ignore[method-assign]
    try:
        return app.lmi(*BY_JOB, *argv)
    finally:
        jobs.job = observed  # type: ignore[method-assign]


def test_machines_are_priced_then_started_and_deleted(deployed: CloudApp) -> None:
    result = deployed.lmi(*BY_JOB, "-c", "2", "-c", "4")
    assert result.code == 0, result.err
    assert "2 x ml.c5.xlarge (a processing job) send the load: at most $" in result.err
    assert (
        "the clocks of the machines differ by 10 ms (by S3's clock, ± 1 ms), which is corrected" in result.err
    )
    found = report()
    assert [(point.load.concurrency, point.counts.sent) for point in found.points] == [
        (2, 2 * REQUESTS),
        (4, 2 * REQUESTS),
    ]
    assert found.is_valid
    assert found.provenance.details["load sent by"] == "2 x ml.c5.xlarge (processing job)"
    assert "Linux, CPython 3.11" in found.provenance.details["machine 2"]
    assert left(deployed) == []


def test_job_has_the_role_the_network_and_the_tags_of_its_deployment(deployed: CloudApp) -> None:
    started = []
    start = deployed.cloud.jobs.start
    deployed.cloud.jobs.start = lambda *given: (started.append(given), start(*given))[1]  # type: ignore[method-assign]
    flags = ("--job-instance-type", "ml.c5.2xlarge", "--job-role", "sending", "--job-time-limit", "7200")
    assert deployed.lmi(*BY_JOB, *flags, "-c", "2").code == 0
    (name, settings, tags), *_ = started
    assert name.startswith("tiny-")
    assert (settings.instance, settings.count, settings.timeout) == ("ml.c5.2xlarge", 2, 7200)
    assert settings.role == "arn:aws:iam::111122223333:role/sending"
    assert dict(tags)["lmi:deployment"] == "tiny"
    assert dict(tags)["lmi:purpose"] == "load"
    assert settings.command[3:5] == ("bench", "job")


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("-c", "1"), 2, "concurrency 1 cannot be divided over 2 machines"),
        (("-c", "4", "--requests", "1"), 2, "1 requests cannot be divided over 2 machines"),
        (("-c", "1", "--ramp-to", "8"), 2, "concurrency 1 cannot be divided over 2 machines"),
        (("-c", "4", "--ramp-to", "8", "--warmup", "5"), 2, "takes no number of requests as its warm-up"),
        (("-c", "4", "--job-instance-type", "ml.c5.xlarg"), 2, "did you mean ml.c5.xlarge"),
        (("-c", "4", "--job-time-limit", "60"), 2, "--job-time-limit 60 is too short: the loads may take"),
        (("-c", "4", "--max-cost", "0.01"), 5, "1 x ml.g5.xlarge and the job may cost"),
    ],
)
def test_load_that_cannot_be_sent_is_refused_before_anything_starts(
    deployed: CloudApp, flags: tuple[str, ...], code: int, words: str
) -> None:
    result = deployed.lmi(*BY_JOB, *flags)
    assert (result.code, words in result.err) == (code, True), result.err
    assert left(deployed) == []


def test_options_of_a_job_need_one(deployed: CloudApp) -> None:
    result = deployed.lmi(*BENCH, "--instances", "2")
    assert (result.code, "--instances has no effect without --via job" in result.err) == (2, True)
    url = deployed.lmi("bench", "--url", "http://127.0.0.1:9/v1", "--via", "job")
    assert (url.code, "--via job and --url cannot be combined" in url.err) == (2, True)


def test_quota_and_role_are_checked_before_the_job(deployed: CloudApp) -> None:
    deployed.cloud.account_state.quotas["ml.c5.xlarge for processing job usage"] = 1.0
    result = deployed.lmi(*BY_JOB, "-c", "2")
    assert result.code == 1
    assert 'the quota "ml.c5.xlarge for processing job usage" in us-east-1 is 1' in result.err
    deployed.cloud.account_state.quotas.clear()
    deployed.cloud.roles.absent.add("arn:aws:iam::111122223333:role/lmi-load-job")
    result = deployed.lmi(*BY_JOB, "-c", "2")
    assert result.code == 1
    assert "`lmi iam RECIPE --set bench.via=job` prints what the role" in result.err
    assert "bootstrap" not in result.err  # it makes no role for load jobs
    assert left(deployed) == []


def test_unknown_price_is_said_and_refused_only_with_a_limit(deployed: CloudApp) -> None:
    del deployed.cloud.prices.hourly_of["ml.c5.xlarge"]
    assert "send the load; their price is unknown" in deployed.lmi(*BY_JOB, "-c", "2").err
    refused = deployed.lmi(*BY_JOB, "-c", "2", "--max-cost", "100")
    assert (refused.code, "the price of ml.c5.xlarge is unknown" in refused.err) == (5, True)


def test_ctrl_c_before_the_first_result_leaves_nothing(deployed: CloudApp) -> None:
    for look in (1, 2):
        result = interrupted_at(deployed, look, KeyboardInterrupt, "-c", "2")
        assert result.code == 130
        assert left(deployed) == []


def test_job_that_fails_says_why_and_leaves_nothing(deployed: CloudApp) -> None:
    deployed.cloud.jobs.look = lambda job, machines: None
    deployed.cloud.jobs.seconds, deployed.cloud.jobs.reason = 30.0, "AlgorithmError: no httptools"
    result = deployed.lmi(*BY_JOB, "-c", "2")
    assert result.code == 1
    assert "the job that sends the load ended Failed: AlgorithmError: no httptools (0 of 2" in result.err
    assert "transfer begun" in result.err  # its last lines
    assert left(deployed) == []


def test_job_that_cannot_be_deleted_is_the_error_and_the_report_is_written(deployed: CloudApp) -> None:
    def refused(name: str) -> None:
        raise AccessError("no permission for sagemaker:DeleteProcessingJob", hint="add it")

    deployed.cloud.jobs.delete = refused  # type: ignore[method-assign]
    result = deployed.lmi(*BY_JOB, "-c", "2", "--json")
    assert result.code == 1, result.out
    assert [line["ok"] for line in result.lines if line["event"] == "result"] == [False]
    error = result.lines[-1]["error"]
    assert error["message"].startswith("not deleted: the job that sent the load: no permission for")
    assert "lmi gc" in error["hint"]
    assert report().points[0].counts.sent == 2 * REQUESTS


def test_gc_deletes_the_files_of_a_job_that_something_else_deleted(deployed: CloudApp) -> None:
    store = deployed.depot().store
    store.put("jobs/tiny-0123456789/load/request.json", b"{}")
    store.put("jobs/tiny-else-0123456789/load/request.json", b"{}")
    assert deployed.cloud.jobs.job("tiny-0123456789") is None
    shown = deployed.lmi("gc", "--yes")
    assert shown.code == 0, shown.err
    assert "no lmi waits for its load job tiny-0123456789; the deployment stays" in " ".join(
        shown.out.split()
    )
    assert [one.key for one in store.list("jobs/")] == ["jobs/tiny-else-0123456789/load/request.json"]
    assert deployed.lmi("status", "tiny").code == 0


def test_machines_that_never_answer_are_given_up(deployed: CloudApp) -> None:
    deployed.cloud.jobs.look = lambda job, machines: None
    result = deployed.lmi(*BY_JOB, "-c", "2")
    assert result.code == 1
    assert "0 of 2 machines answered in 1800 s" in result.err
    assert left(deployed) == []


def test_job_that_fails_after_a_load_keeps_what_was_measured(deployed: CloudApp) -> None:
    work = deployed.run_load_machines

    def first_load_only(job: str, machines: int) -> None:
        work(job, machines)
        store = deployed.depot().store
        if any("loads/1.json" in one.key for one in store.list("jobs/")):
            deployed.cloud.jobs.seconds = 0.0

    deployed.cloud.jobs.look, deployed.cloud.jobs.reason = first_load_only, "a machine was lost"
    result = deployed.lmi(*BY_JOB, "-c", "2", "-c", "4")
    assert result.code == 0, result.err
    found = report()
    assert ([point.load.concurrency for point in found.points], found.interrupted) == ([2], True)
    assert any("the job ended before its last load" in note for note in found.notes)
    assert left(deployed) == []


def test_run_under_way_keeps_a_second_bench_and_an_up_out(deployed: CloudApp) -> None:
    """It holds the lock of its deployment; a plan does not stop its job."""
    with deployed.depot().lock.hold("tiny"):
        result = deployed.lmi(*BY_JOB, "-c", "2")
    assert (result.code, "tiny: locked by" in result.err) == (5, True), result.err
    assert left(deployed) == []


EXPERIMENT = RECIPE.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g5.xlarge") + (
    "bench: {via: job, instances: 2, matrix: {concurrency: [2, 4]}, duration: 10, timeout: 5}\n"
)


def test_each_cell_of_an_experiment_is_sent_by_a_job(app: CloudApp) -> None:
    app.cloud.jobs.seconds = 1e9
    app.cloud.prices.hourly_of["ml.c5.xlarge"] = 0.204
    Path("tiny.yaml").write_text(EXPERIMENT)
    result = app.lmi("bench", "tiny.yaml", "--yes")
    assert result.code == 0, result.err
    assert "the load of each cell is sent by a job of 2 machines, which is in the cost" in result.err
    found = from_json(Path("bench-tiny/report.json").read_text(encoding="utf-8"), "report.json")
    assert [point.counts.sent for point in found.points] == [2 * REQUESTS, 2 * REQUESTS]
    assert left(app) == []
    assert not [one for one in app.cloud_resources() if "weights/" not in one]


def test_experiment_on_this_machine_cannot_be_sent_by_a_job(app: CloudApp) -> None:
    Path("tiny.yaml").write_text(
        EXPERIMENT.replace("instance_type: ml.g5.xlarge\n", "") + "endpoint: {target: local}\n"
    )
    result = app.lmi("bench", "tiny.yaml", "--yes")
    assert result.code == 2
    app.servers.close()
    assert "runs on this machine, and no machine in AWS reaches it" in result.err


def test_cell_that_the_machines_cannot_divide_is_refused_before_anything_is_deployed(app: CloudApp) -> None:
    Path("tiny.yaml").write_text(EXPERIMENT.replace("[2, 4]", "[1, 4]"))
    result = app.lmi("bench", "tiny.yaml", "--yes")
    assert (result.code, "concurrency 1 cannot be divided over 2 machines" in result.err) == (2, True), (
        result.err
    )
    assert app.cloud_resources() == []


def test_keys_of_a_job_without_a_job_are_refused(app: CloudApp) -> None:
    Path("tiny.yaml").write_text(EXPERIMENT.replace("via: job, ", ""))
    result = app.lmi("validate", "tiny.yaml")
    assert (result.code, "bench.instances: no effect without via: job" in result.err) == (2, True), result.err
