"""`lmi bench run`, or `lmi bench NAME`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.api.load_measurement import (
    LiveProgress,
    LoadOptions,
    RequestOptions,
    deployed_measurement,
    measurement_of,
    require_client,
)
from lmi_deploy.cli.bench_options import bench_options
from lmi_deploy.cli.bench_progress import (
    cloudwatch_option,
    measure_by_job,
    measure_here,
    show_measured,
    with_cloudwatch,
    write_report,
)
from lmi_deploy.cli.bench_verdicts import UndecidedIs, require_objectives, undecided_option
from lmi_deploy.cli.commands.bench_report import show_conclusion, show_report
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.load_job_options import load_job_options
from lmi_deploy.cli.output_files import writing
from lmi_deploy.cli.report_outputs import (
    RecordsFile,
    ReportFiles,
    in_layout,
    layout_option,
    report_files_options,
)
from lmi_deploy.cli.shared_options import json_option, name_argument, place_options
from lmi_deploy.domain.sagemaker.load_job_options import LoadJobOptions
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import DeployFailed, UsageRefused

if TYPE_CHECKING:
    from lmi_deploy.bench.cloudwatch_figures import Between, LoadTime
    from lmi_deploy.bench.load_generator import Watch
    from lmi_deploy.bench.load_job import LoadJob
    from lmi_deploy.bench.report import Report
    from lmi_deploy.bench.run_sequence import MeasuredLoad
    from lmi_deploy.domain.record import DeploymentRef

OUTPUT = Path("bench.json")
_SELF_TEST_SECONDS = 3.0
_FIRST = 100


@click.command("run")
@name_argument
@click.option(
    "--url", help="Measure this server with OpenAI's API instead, such as http://127.0.0.1:8000/v1."
)
@click.option("--model", default="", help="With --url: the name of the model in requests.")
@click.option(
    "--api-key",
    envvar="LMI_BENCH_API_KEY",
    show_envvar=True,
    metavar="KEY",
    help="With --url: the key. Set it in the variable: other users can read the command line.",
)
@bench_options
@load_job_options
@click.option(
    "--self-test",
    "only_self_test",
    is_flag=True,
    help="Measure only the error of this client, on a server of known latency that lmi starts.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=OUTPUT,
    show_default=True,
    help="The report as JSON; an existing one is replaced.",
)
@click.option(
    "--records",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Every request, with its times, tokens and error, as a line of JSON; as Parquet if FILE ends with .parquet.",
)
@click.option(
    "--check-options", is_flag=True, help="Only check the options, and read the prompts: nothing is sent."
)
@layout_option("summary")
@report_files_options
@undecided_option("pass")
@cloudwatch_option
@place_options
@json_option
def command(
    *,
    name: str | None,
    url: str | None,
    model: str,
    api_key: str | None,
    sending: RequestOptions,
    load: LoadOptions,
    by_job: LoadJobOptions | None,
    only_self_test: bool,
    check_options: bool,
    output: Path,
    records: Path | None,
    layout: str | None,
    files: ReportFiles,
    undecided: UndecidedIs,
    cloudwatch_wait: float,
    where: TargetOptions,
    as_json: bool,
) -> None:
    """Send load to the deployment NAME, and report its latency, throughput and cost.

    --concurrency keeps that many requests running (closed loop). --rate sends by a schedule, whatever the server does
    (open loop), and counts latency from the schedule. Repeat either to measure several loads, or let --find choose
    them. --via job sends the load from machines beside the endpoint, for more than this machine can send.

    Exit code 7: an objective is not met; 8, with --undecided fail: too few requests to say. Ctrl-C writes the report
    of what was measured until then.
    """
    require_client()
    if url:
        _require_only_url(name, by_job)
    context = open_context(as_json=as_json)
    if only_self_test:
        _show_self_test(context, load)
        return
    if check_options:
        sending.with_prompts(model, "main", context.deps)
        context.view.result({"checked": True})
        return
    if url:
        prompted = sending.with_prompts(model, "main", context.deps)
        planned = _of_url(url, model, Secret(api_key) if api_key else None, prompted, load)
    else:
        ref = find_deployment(name, context.deps, where)
        planned = _of_deployment(ref, context, sending, load, by_job)
    _claim(output, context)
    kept = RecordsFile(records, planned.name) if records else None
    report, times, failure = _measure(planned.run, context, kept)
    report = in_layout(with_cloudwatch(report, times, planned.between, cloudwatch_wait, context), layout)
    write_report(report, output, context)
    written = show_report(report, context, files)

    _conclude(report, context, written, _Ended(failure, url, planned.job, undecided, kept))


def _claim(output: Path, context: CommandContext) -> None:
    """Refused before the run, not after it; an earlier report is replaced, and the user learns it while it exists."""
    if output.is_file() and output.stat().st_size:
        context.view.note(f"{output}: replaces the report of an earlier run; -o FILE keeps it")
    with writing(output):
        output.touch()


@dataclass(frozen=True, slots=True)
class _Ended:
    """What decides whether the run succeeded; `failure` is what the first failed request got."""

    failure: str
    url: str | None
    job: LoadJob | None
    undecided: UndecidedIs
    records: RecordsFile | None


def _conclude(report: Report, context: CommandContext, written: Sequence[Path], ended: _Ended) -> None:
    def require() -> None:
        _require_success(report, ended.failure, is_url=bool(ended.url))
        _require_deleted(ended.job)
        require_objectives(report, ended.undecided)
        if ended.records is not None:
            ended.records.require_complete()

    show_conclusion(report, context, written, require)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedRun:
    """`between` reads CloudWatch's figures, where it has them."""

    name: str
    run: Callable[[Watch, Callable[[MeasuredLoad], None]], Report]
    between: Between | None = None
    job: LoadJob | None = None


def _of_deployment(
    ref: DeploymentRef,
    context: CommandContext,
    sending: RequestOptions,
    load: LoadOptions,
    by_job: LoadJobOptions | None,
) -> _PlannedRun:
    note = context.view.note
    found = deployed_measurement(ref, context.deps, sending, load, note=note, by_job=by_job)
    here = partial(measure_here, found.measurement)
    run = here if found.job is None else partial(measure_by_job, ref, found.job, context)
    return _PlannedRun(name=found.measurement.name, run=run, between=found.between, job=found.job)


def _of_url(
    url: str, model: str, key: Secret | None, sending: RequestOptions, load: LoadOptions
) -> _PlannedRun:
    from lmi_deploy.bench.request_target import openai_target

    if load.max_cost is not None:
        raise UsageRefused(
            "--max-cost and --url cannot be combined", hint="name a deployment: its price is known"
        )
    target = openai_target(url, model, key, chat=sending.form.chat)
    details = {"url": target.endpoint.url, "model": model}
    measurement = measurement_of(model or url, target, sending, load, details=details)
    return _PlannedRun(name=measurement.name, run=partial(measure_here, measurement))


def _require_only_url(name: str | None, by_job: LoadJobOptions | None) -> None:
    if name:
        raise UsageRefused("NAME and --url cannot be combined", hint="name what to measure: one of them")
    if by_job is not None:
        hint = "name a deployment on SageMaker: the machines of a job reach no other server"
        raise UsageRefused("--via job and --url cannot be combined", hint=hint)


def _measure(
    run: Callable[[Watch, Callable[[MeasuredLoad], None]], Report],
    context: CommandContext,
    records: RecordsFile | None,
) -> tuple[Report, list[LoadTime], str]:
    """Also what the first failed request got."""
    from lmi_deploy.bench.cloudwatch_figures import load_time

    times: list[LoadTime] = []
    failures: list[str] = []

    def ended(each: MeasuredLoad) -> None:
        failures.extend(one.detail for one in each.result.records[:_FIRST] if one.error and one.detail)
        times.append(load_time(each.result, datetime.now(UTC)))
        show_measured(each, context)
        if records is not None and (failure := records.add(each)):
            context.view.note(f"the requests are not written: {failure}")

    try:
        report = run(LiveProgress(context.view.show), ended)
        return report, times, next(iter(failures), "")
    finally:
        context.view.close()


def _require_success(report: Report, failure: str, *, is_url: bool) -> None:
    errors = sorted({name for point in report.points for name in point.counts.errors})
    if errors and not any(point.counts.succeeded for point in report.points):
        hint = "`lmi invoke` sends one request, and shows the whole error"
        if is_url and {*errors} <= {"http_401", "http_403"}:
            hint = "set the key of the server in the variable LMI_BENCH_API_KEY"
        elif is_url:
            hint = "correct --url, --model or the request; --records FILE keeps the error of each request"
        what = f"{report.name}: no request succeeded ({', '.join(errors)})"
        raise DeployFailed(what, hint=hint, details=[" ".join(failure.split())] if failure else [])


def _require_deleted(job: LoadJob | None) -> None:
    if job is not None and job.left:
        raise DeployFailed(
            f"not deleted: {job.left}",
            hint="run `lmi gc`, which deletes it: a job that runs costs money; the report is written",
        )


def _show_self_test(context: CommandContext, load: LoadOptions) -> None:
    from lmi_deploy.bench.run_sequence import self_test

    tested = [self_test(one.concurrency or 64, seconds=_SELF_TEST_SECONDS) for one in load.loads]
    context.view.rows(
        [
            {
                "concurrency": each.concurrency,
                "requests": each.requests,
                "mean_error_ms": round(each.mean_error * 1000, 3),
                "p99_error_ms": round(each.p99_error * 1000, 3),
                "rate_of_ideal": f"{each.efficiency:.1%}",
            }
            for each in tested
        ]
    )
    worst = max(tested, key=lambda each: each.mean_error)
    words = f"this client adds up to {worst.mean_error * 1000:.2g} ms to a latency"
    context.view.result({"self_tests": [asdict(each) for each in tested]}, words)
