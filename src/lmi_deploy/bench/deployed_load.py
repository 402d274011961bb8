"""The load on a deployment that a job sends: planned and priced, then measured under the deployment's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lmi_deploy.bench.cost import money
from lmi_deploy.bench.deployment_target import DeployedTarget
from lmi_deploy.bench.load_generator import Watch
from lmi_deploy.bench.load_job import START_SECONDS, LoadJob
from lmi_deploy.bench.load_job_messages import LoadJobRequest
from lmi_deploy.bench.report import Report
from lmi_deploy.bench.run_sequence import MeasuredLoad, Measurement
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.load_job_options import LoadJobOptions
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked


def planned_load_job(
    ref: DeploymentRef,
    target: DeployedTarget,
    measurement: Measurement,
    options: LoadJobOptions,
    deps: Dependencies,
) -> LoadJob:
    """UsageRefused if no job can send this load. Nothing is started."""
    serving = target.serving
    request = LoadJobRequest(
        endpoint=ref.name,
        engine=serving.engine,
        handler=serving.handler,
        template=serving.template,
        task=serving.task,
        form=measurement.form,
        limits=measurement.limits,
        timeout=measurement.timeout,
        seed=measurement.seed,
        self_test=measurement.self_test,
    )
    machines = deps.load_machines(ref, serving, options)
    job = LoadJob(measurement=measurement, request=request, machines=machines, clock=deps.clock)
    job.require_divisible()
    return job


def hourly_of(job: LoadJob) -> float | None:
    """Of all machines; None: unknown."""
    price = job.machines.price
    return price.hourly * job.machines.count if price else None


def cost_of_job(job: LoadJob) -> float | None:
    """The most that its machines cost, with the assumed time to start; None: unknown."""
    hourly = hourly_of(job)
    return None if hourly is None else hourly * (START_SECONDS + job.longest) / 3600


def job_notes(job: LoadJob) -> Iterator[str]:
    """What is said before it is started."""
    machines, cost = job.machines, cost_of_job(job)
    what = f"{machines.count} x {machines.instance} (a processing job)"
    if cost is None or machines.price is None:
        yield f"{what} send the load; their price is unknown"
        return
    longest = seconds_text(START_SECONDS + job.longest)
    yield f"{what} send the load: at most {money(cost, machines.price.currency)} in at most {longest}"


def measured_by_job(
    ref: DeploymentRef,
    job: LoadJob,
    deps: Dependencies,
    *,
    watch: Watch,
    notify: Callable[[MeasuredLoad], None],
    show: Callable[[Event], None],
) -> Report:
    """Under the lock: a second load would be measured with this one, and an `up` or a `down` in it, too."""
    with locked(ref, deps):
        return job.measure(watch, notify, show)
