"""The jobs of a deployment that have machines, which cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

from lmi_deploy.domain.record import Record
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob
from lmi_deploy.domain.sagemaker.resource_settings import TAG, Resource
from lmi_deploy.domain.sagemaker.transfer_job import (
    DELETED,
    JOBS,
    UNREADABLE,
    ObservedJob,
    attempt_name,
    load_job_of,
)
from lmi_deploy.errors import AccessError
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.optimization_jobs import ModelOptimizations
from lmi_deploy.ports.processing_jobs import Jobs

DESCRIBED_AT_MOST: Final = 3
"""A list of the running jobs takes two or three requests."""


def running_transfer_jobs(
    deployment: str, listed: tuple[Resource, ...], record: Record | None, cloud: Cloud
) -> tuple[ObservedJob, ...]:
    """`listed` is what the tag search found. A job whose status may not be read is UNREADABLE: it may be running."""
    tagged = {resource.name for resource in listed}
    started = {job.name: job for job in _started_jobs(record, cloud)}
    shown = candidates(tagged - started.keys(), cloud.jobs)
    jobs = [job for name in shown if (job := _observe(name, cloud))]
    jobs += [
        job
        for name, job in started.items()
        if name in tagged or (job.is_running and _is_owned(job, deployment, cloud))
    ]
    jobs.sort(key=lambda job: job.name)
    return tuple(job for job in jobs if job.is_running or job.status == UNREADABLE)


def candidates(names: Iterable[str], service: Jobs | ModelOptimizations) -> tuple[str, ...]:
    """Those of these jobs that may be running. SageMaker lists a finished job for ever, so that their number grows with
    every transfer: where there are many, its list of running jobs replaces a description of each.
    """
    asked = tuple(sorted(set(names)))
    if len(asked) <= DESCRIBED_AT_MOST:
        return asked
    try:
        running = service.running()
    except AccessError:  # a policy that an older lmi printed
        return asked
    return tuple(name for name in asked if name in running)


def stored_load_jobs(store: ObjectStore, deployment: str) -> tuple[str, ...]:
    """The load jobs whose objects are in the bucket: `lmi bench` writes them before the job, and deletes them after it.
    The bucket shows them at once; the tag search lags.
    """
    return load_jobs_of((stored.key for stored in store.list(f"{JOBS}{deployment}-")), deployment)


def load_jobs_of(keys: Iterable[str], deployment: str) -> tuple[str, ...]:
    """The load jobs of the deployment to which these objects belong."""
    return tuple(sorted({job for key in keys if (job := load_job_of(key, deployment))}))


def with_stored_jobs(
    found: tuple[ObservedJob, ...], store: ObjectStore, deployment: str, cloud: Cloud
) -> tuple[ObservedJob, ...]:
    """And the load jobs that the tag search does not show yet; also those that have ended, because no process deleted
    them, and those of which only objects are left.
    """
    names = {job.name for job in found}
    stored = (
        _observe(name, cloud) or ObservedJob(name=name, arn="", status=DELETED, purpose="load")
        for name in stored_load_jobs(store, deployment)
        if name not in names
    )
    return (*found, *stored)


def running_compile_jobs(listed: Iterable[Resource], cloud: Cloud) -> tuple[ObservedJob, ...]:
    """Without those that may not be described: a policy for a recipe without `compile` permits no request on them."""
    running = []
    for resource in possibly_running(listed, cloud):
        try:
            job = cloud.jobs_of(resource.kind).job(resource.name)
        except AccessError:
            continue
        if job is not None and job.is_running:
            running.append(job)
    return tuple(sorted(running, key=lambda job: job.name))


def possibly_running(listed: Iterable[Resource], cloud: Cloud) -> Iterator[Resource]:
    """Those jobs that may be running, of both services."""
    resources = tuple(listed)
    for kind in sorted({resource.kind for resource in resources}):
        names = candidates((one.name for one in resources if one.kind == kind), cloud.jobs_of(kind))
        yield from (one for one in resources if one.kind == kind and one.name in names)


def _started_jobs(record: Record | None, cloud: Cloud) -> Iterator[ObservedJob]:
    """Every job attempt that the record says was started, without a recorded end."""
    for intent in record.started(RunTransferJob) if record else ():
        if intent.outcome is None:
            for number in count(1):
                job = _observe(attempt_name(str(intent.names["job"]), number), cloud)
                if job is None or job.status == UNREADABLE:
                    break
                yield job


def _observe(name: str, cloud: Cloud) -> ObservedJob | None:
    try:
        return cloud.jobs.job(name)
    except AccessError:
        return ObservedJob(name=name, arn="", status=UNREADABLE)


def _is_owned(job: ObservedJob, deployment: str, cloud: Cloud) -> bool:
    """By its own tags; if they may not be read, by our record and the digest in its name."""
    try:
        return dict(cloud.hosting.tags(job.arn)).get(TAG) == deployment
    except AccessError:
        return True
