"""A transfer inside AWS: prepare, start, watch, and clean up once its manifest is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob, StopTransferJob
from lmi_deploy.domain.sagemaker.s3_layout import weights_of
from lmi_deploy.domain.sagemaker.transfer_job import (
    INPUT,
    JOBS,
    JobRequest,
    JobSettings,
    ObservedJob,
    attempt_name,
    job_prefix,
    load_prefix,
    order_text,
)
from lmi_deploy.errors import Conflict, TransferFailed
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from lmi_deploy.targets.sagemaker.job_watch import JobWatch
from lmi_deploy.targets.target import Outcome

JobFiles = Callable[[], Mapping[str, bytes]]
"""The files that a job needs from lmi, by name: `start.py` and the wheels."""
RESOURCES: Final = "/opt/ml/config/resourceconfig.json"
"""Where SageMaker describes the cluster to an instance (CreateProcessingJob, developer guide)."""
_MEMORY: Final = 1_000_000_000
"""Bytes of memory that a job's instance may use: it has plenty, and runs nothing else."""
_LAST: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferJobs:
    cloud: Cloud
    depot: BucketServices
    clock: Clock
    job_files: JobFiles
    poll_intervals: Callable[[], Iterator[float]]
    """Seconds between two looks."""

    def run(self, action: RunTransferJob, spec: Spec, *, tags: Pairs) -> Generator[Event, None, Outcome]:
        """TransferFailed, with the job's last lines, if it does not end with the weights in the bucket."""
        tried, is_begun = self._attempt(action)
        if not is_begun:
            if self._complete(action):
                return "there already"
            yield from self._start(tried, spec, tags)
        ended = yield from self._watched(tried, spec.ref, action.key)
        if not self._complete(action):
            raise self._failure(tried, ended)
        clear_job(self.depot.store, action.job)
        return "every file verified, the manifest written"

    def _attempt(self, action: RunTransferJob) -> tuple[RunTransferJob, bool]:
        """The running job, else the first unused job name; and whether it runs."""
        for number in count(1):
            tried = replace(action, job=attempt_name(action.job, number))
            observed = self.cloud.jobs.job(tried.job)
            if observed is None or observed.status == "InProgress":
                return tried, observed is not None
        raise AssertionError("there is always another number")

    def _complete(self, action: RunTransferJob) -> bool:
        return all(self.depot.weights.flaws(model.weights) == () for model in action.models)

    def _start(self, action: RunTransferJob, spec: Spec, tags: Pairs) -> Iterator[Event]:
        order = JobRequest(
            job=action.job,
            bucket=self.depot.bucket,
            owner=spec.cloud.account,
            kms_key=spec.cloud.kms_key,
            listings=tuple(_listings(spec)[model.weights] for model in action.models),
            token_secret=spec.cloud.token_secret,
            memory=_MEMORY,
        )
        text = f"{job_prefix(action.job)}in/"
        self.depot.store.put(f"{text}order.json", order_text(order).encode())
        settings = self._handed(action.settings, own=self._packed(action.job), text=text)
        jobs = self.cloud.jobs
        try:
            yield from Propagation(cloud=self.cloud, clock=self.clock).until_assumable(
                settings.role, lambda: jobs.start(action.job, settings, tags), key=action.key
            )
        except Conflict:
            return  # a reply was lost: it runs, and is watched

    def _handed(self, settings: JobSettings, *, own: str, text: str) -> JobSettings:
        bucket = f"s3://{self.depot.bucket}/"
        inputs = (("lmi", bucket + own, f"{INPUT}/lmi"), ("order", bucket + text, f"{INPUT}/order"))
        program = (f"{INPUT}/lmi/start.py", f"{INPUT}/lmi")
        start = ("python3", *program, "weights", "job", f"{INPUT}/order/order.json", RESOURCES)
        return replace(settings, inputs=inputs, command=start)

    def _packed(self, job: str) -> str:
        """The prefix of the program's package. Each job has its own, which is deleted with it, so jobs do not
        interfere.
        """
        prefix = f"{job_prefix(job)}lmi/"
        for name, content in self.job_files().items():
            self.depot.store.put(prefix + name, content)
        return prefix

    def _watched(
        self, action: RunTransferJob, ref: DeploymentRef, key: str
    ) -> Generator[Event, None, ObservedJob]:
        hint = (
            f"run `lmi up` to wait for it, `{ref.command('down')}` to stop it; it costs money while it runs"
        )
        return (yield from self._watch(action.job, key).until_ended(action.settings.timeout, hint=hint))

    def _watch(self, job: str, key: str) -> JobWatch:
        return JobWatch(
            jobs=self.cloud.jobs,
            clock=self.clock,
            poll_intervals=self.poll_intervals,
            job=job,
            key=key,
        )

    def _failure(self, action: RunTransferJob, ended: ObservedJob) -> TransferFailed:
        why = ended.message or ended.reason or "no reason given"
        return TransferFailed(
            f"{action.job}: the job ended {ended.status}: {why}",
            hint="run the same command again: a new job continues with what is missing in the bucket",
            details=self._watch(action.job, action.key).printed()[-_LAST:],
        )


def _listings(spec: Spec) -> dict[str, ModelListing]:
    """The chosen files of every model of the deployment, by its name in the bucket."""
    main = {weights_of(spec): spec.model.listing(spec.weights.files)}
    return main | {each.weights_name: each.listing for each in spec.weights.additional}


def stop_job(
    action: StopTransferJob,
    *,
    cloud: Cloud,
    clock: Clock,
    interval: Callable[[], Iterator[float]],
    store: Callable[[], ObjectStore],
) -> Generator[Event, None, Outcome]:
    """Stop it and wait until it has stopped: until then it costs money, and writes notes. Nothing of a load job stays;
    what a transfer job has transferred is continued by the next one.
    """
    observed = cloud.jobs.job(action.job)
    watch = JobWatch(jobs=cloud.jobs, clock=clock, poll_intervals=interval, job=action.job, key=action.key)
    yield from watch.stop()
    if observed is None:  # of a transfer job nothing is below that prefix
        is_load = next(iter(store().list(load_prefix(action.job))), None) is not None
    else:
        is_load = observed.purpose == "load"
    if is_load:
        cloud.jobs.delete(action.job)
        clear_job(store(), action.job)
    return "ended"


def clear_job(store: ObjectStore, job: str) -> None:
    """The input and the notes of a job, of all its attempts."""
    _clear(store, job, re.compile(rf"{re.escape(JOBS + job)}(-\d{{1,3}})?/"))


def clear_jobs(store: ObjectStore, deployment: str) -> None:
    """The same for every job of a deployment, by the form of their names: another deployment's name may start the
    same.
    """
    _clear(
        store, f"{deployment}-", re.compile(rf"{re.escape(JOBS + deployment)}-[0-9a-f]{{10}}(-\d{{1,3}})?/")
    )


def _clear(store: ObjectStore, begins: str, own: re.Pattern[str]) -> None:
    store.delete([stored.key for stored in store.list(JOBS + begins) if own.match(stored.key)])
