"""The port LoadMachines on SageMaker: one processing job, with its objects in the deployment's bucket.

Its name has the form of a transfer job's, so that `down`, `up` and `gc` find and stop what a killed run left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.load_job_options import LoadJobOptions
from lmi_deploy.domain.sagemaker.resource_names import resource_name
from lmi_deploy.domain.sagemaker.resource_settings import TAG, TAG_BUCKET, TAG_PURPOSE
from lmi_deploy.domain.sagemaker.transfer_job import (
    INPUT,
    LOAD_INPUT,
    JobSettings,
    ObservedJob,
    attempt_name,
    job_prefix,
    load_prefix,
)
from lmi_deploy.domain.serving_record import SageMakerServing, ServingRecord
from lmi_deploy.errors import Conflict, UsageRefused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.targets.sagemaker.endpoint_waiter import poll_intervals
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from lmi_deploy.targets.sagemaker.job_watch import JobWatch
from lmi_deploy.targets.sagemaker.load_job.resolve import command_of, load_job_settings, time_limit_of
from lmi_deploy.targets.sagemaker.observed_jobs import stored_load_jobs
from lmi_deploy.targets.sagemaker.preflight import preflight_load
from lmi_deploy.targets.sagemaker.transfer_job.perform import JobFiles, clear_job

KEY = "bench"
"""Of its events."""


@dataclass(slots=True, kw_only=True)
class SageMakerLoadMachines:
    """`job_files` is the program that a machine runs; see JobFiles."""

    ref: DeploymentRef
    serving: ServingRecord
    options: LoadJobOptions
    cloud: Cloud
    open_store: Callable[[], ObjectStore]
    clock: Clock
    job_files: JobFiles
    job: str = ""
    """Its name, once it is known."""
    details: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> ObjectStore:
        """Opened when it is used: before the first `up` there may be no bucket, and a price needs none."""
        return self.open_store()

    @property
    def count(self) -> int:
        return self.options.instances

    @property
    def instance(self) -> str:
        return self._settings(0).instance

    @property
    def price(self) -> Price | None:
        return self.cloud.prices.hourly(self.instance, "processing")

    @property
    def prefix(self) -> str:
        return load_prefix(self.job)

    def require_able(self) -> Iterator[str]:
        caller = self.cloud.caller
        bucket = self.ref.bucket or default_bucket(caller.account, caller.region)
        yield from preflight_load(self.ref.name, self._settings(0), self.cloud, bucket)

    def start(self, files: Mapping[str, bytes], *, seconds: float) -> Iterator[Event]:
        settings = self._settings(time_limit_of(self.options.time_limit, seconds))
        yield from self._end_leftovers()
        program = self.job_files()
        base = resource_name(self.ref.name, [LOAD_INPUT, settings])
        names = (attempt_name(base, number) for number in count(1))
        self.job = next(name for name in names if self.cloud.jobs.job(name) is None)
        yield Notice(text=f"starting {self.job}: {settings.title}; machines start in about 5 minutes")
        self.details = dict(_compiled(program))
        # Before the job: by these objects a killed run is found, even if the tag search does not show its job yet.
        for name, content in files.items():
            self.store.put(self.prefix + name, content)
        for name, content in program.items():
            self.store.put(f"{job_prefix(self.job)}lmi/{name}", content)
        yield from self._create(self._handed(settings))

    def observed(self) -> ObservedJob | None:
        return self.cloud.jobs.job(self.job)

    def printed(self) -> list[str]:
        return self._watch(self.job).printed()

    def end(self) -> Iterator[Event]:
        if self.job:
            yield from self._end(self.job)

    def _create(self, settings: JobSettings) -> Iterator[Event]:
        jobs, own = self.cloud.jobs, {TAG: self.ref.name, TAG_BUCKET: self.store.bucket}
        tags = tuple(sorted({**dict(self.serving.tags), **own, TAG_PURPOSE: LOAD_INPUT}.items()))
        try:
            yield from Propagation(cloud=self.cloud, clock=self.clock).until_assumable(
                settings.role, lambda: jobs.start(self.job, settings, tags), key=KEY
            )
        except Conflict:
            return  # a reply was lost: it runs

    def _handed(self, settings: JobSettings) -> JobSettings:
        bucket = f"s3://{self.store.bucket}/"
        inputs = (
            ("lmi", f"{bucket}{job_prefix(self.job)}lmi/", f"{INPUT}/lmi"),
            (LOAD_INPUT, bucket + self.prefix, f"{INPUT}/{LOAD_INPUT}"),
        )
        command = command_of(self.store.bucket, self.cloud.caller.account, self.prefix)
        return replace(settings, inputs=inputs, command=command)

    def _end_leftovers(self) -> Iterator[Event]:
        """Of runs that were killed: under the deployment's lock no process waits for them."""
        for job in stored_load_jobs(self.store, self.ref.name):
            yield Notice(text=f"{job}: left by an interrupted run; it is stopped and deleted")
            yield from self._end(job)

    def _end(self, job: str) -> Iterator[Event]:
        yield from self._watch(job).stop()
        self.cloud.jobs.delete(job)
        clear_job(self.store, job)

    def _watch(self, job: str) -> JobWatch:
        return JobWatch(
            jobs=self.cloud.jobs, clock=self.clock, poll_intervals=poll_intervals, job=job, key=KEY
        )

    def _settings(self, time_limit: int) -> JobSettings:
        options = self.options
        return load_job_settings(
            self.serving.cloud,
            self.cloud.caller,
            instances=options.instances,
            instance_type=options.instance_type,
            role=options.role,
            time_limit=time_limit,
        )


def _compiled(program: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """The compiled packages of the program, with their hashes."""
    for name, content in sorted(program.items()):
        if name.endswith(".whl") and not name.endswith("-none-any.whl"):
            yield name, f"sha256 {hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMachinesFactory:
    """`store` opens the bucket of a deployment."""

    cloud: Callable[[str], Cloud]
    store: Callable[[DeploymentRef], ObjectStore]
    clock: Clock
    job_files: JobFiles

    def __call__(
        self, ref: DeploymentRef, serving: ServingRecord, options: LoadJobOptions
    ) -> SageMakerLoadMachines:
        """UsageRefused of a deployment that is not on SageMaker."""
        if not isinstance(serving.place, SageMakerServing):
            raise UsageRefused(
                f"{ref.name} runs on this machine, and no machine in AWS reaches it",
                hint="omit --via job (bench.via: job), or deploy it to SageMaker",
            )
        return SageMakerLoadMachines(
            ref=ref,
            serving=serving,
            options=options,
            cloud=self.cloud(ref.region),
            open_store=lambda: self.store(ref),
            clock=self.clock,
            job_files=self.job_files,
        )
