"""Run a compile job, and store its result: verified, beside the weights, the manifest last."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from lmi_deploy.domain.compile import CompileSpec, compile_command, read_report
from lmi_deploy.domain.content_hashes import sha256_of
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.java_properties import write_properties
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.safe_paths import check_relative_path
from lmi_deploy.domain.sagemaker.expiry import duration_text
from lmi_deploy.domain.sagemaker.job_actions import RunCompileJob
from lmi_deploy.domain.sagemaker.optimization_job import OptimizationSettings
from lmi_deploy.domain.sagemaker.s3_layout import weights_address
from lmi_deploy.domain.sagemaker.transfer_job import (
    INPUT,
    JobSettings,
    ObservedJob,
    attempt_name,
    job_prefix,
)
from lmi_deploy.domain.weights import Manifest
from lmi_deploy.errors import CompileFailed, Conflict, IntegrityError
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.object_store import StoredObject
from lmi_deploy.targets.sagemaker.compile_job import runner
from lmi_deploy.targets.sagemaker.compile_job.stored_result import StoredResult
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from lmi_deploy.targets.sagemaker.job_watch import JobWatch, WatchedJobs
from lmi_deploy.targets.sagemaker.transfer_job.perform import clear_job
from lmi_deploy.targets.target import Outcome

OUTPUT: Final = "/opt/ml/processing/output"
PARTITION_PROGRAM: Final = "/opt/djl/partition/partition.py"
"""Of the DJLServing images with DeepSpeed or FasterTransformer (djl-serving, serving/docker/partition)."""
_REPORT: Final = "report/files.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJobs:
    """`spec` is that of the model's own weights, which are in the bucket by now."""

    spec: Spec
    cloud: Cloud
    depot: BucketServices
    clock: Clock
    poll_intervals: Callable[[], Iterator[float]]

    def run(self, action: RunCompileJob, *, tags: Pairs) -> Generator[Event, None, Outcome]:
        """CompileFailed, with the job's last lines, if it does not end with a result in the bucket."""
        if (found := self.depot.weights.at_commit(action.model_id, action.result)) is not None:
            return f"there already: {found.name}"
        job, observed = self._attempt(action)
        if observed is None:
            yield from self._start(replace(action, job=job), tags)
        if observed is None or observed.is_running:
            hint = "run the same command again to wait for it, with --stop to stop it; it costs money while it runs"
            watch = self.watch(job, action)
            observed = yield from watch.until_ended(action.settings.timeout, hint=hint)
        if observed.status != "Completed":
            error = self._failure(observed, action)
            clear_job(self.depot.store, action.job)
            raise error
        manifest = yield from self._stored(job, action)
        clear_job(self.depot.store, action.job)
        return f"{counted(len(manifest.files), 'file')} verified, stored as {manifest.name}"

    def stop(self, action: RunCompileJob) -> Generator[Event, None, Outcome]:
        """Nothing of it stays."""
        job, observed = self._attempt(action)
        if observed is None or not observed.is_running:
            clear_job(self.depot.store, action.job)
            return "no such job is running"
        yield from self.watch(job, action).stop()
        clear_job(self.depot.store, action.job)
        return f"{job} has stopped"

    def running(self, action: RunCompileJob) -> str:
        """The name of the job, if it runs."""
        job, observed = self._attempt(action)
        return job if observed is not None and observed.is_running else ""

    def watch(self, job: str, action: RunCompileJob) -> JobWatch:
        return JobWatch(
            jobs=self._jobs(action),
            clock=self.clock,
            poll_intervals=self.poll_intervals,
            job=job,
            key=action.key,
        )

    def _jobs(self, action: RunCompileJob) -> WatchedJobs:
        return self.cloud.jobs if isinstance(action.settings, JobSettings) else self.cloud.optimizations

    def _attempt(self, action: RunCompileJob) -> tuple[str, ObservedJob | None]:
        """The job that runs, or whose result was not stored yet; else the first unused name."""
        jobs = self._jobs(action)
        for number in count(1):
            job = attempt_name(action.job, number)
            observed = jobs.job(job)
            if observed is None or observed.is_running:
                return job, observed
            if observed.status == "Completed" and any(self._output(job)):
                return job, observed
        raise AssertionError("there is always another number")

    def _start(self, action: RunCompileJob, tags: Pairs) -> Iterator[Event]:
        def request() -> None:
            if isinstance(action.settings, JobSettings):
                self.cloud.jobs.start(action.job, self._processing(action.job, action.settings), tags)
            else:
                self.cloud.optimizations.start(
                    action.job, self._optimization(action.job, action.settings), tags
                )

        if isinstance(action.settings, JobSettings):
            self._hand_over(action.job)
        try:
            yield from Propagation(cloud=self.cloud, clock=self.clock).until_assumable(
                action.settings.role, request, key=action.key
            )
        except Conflict:
            return  # another process started it, or a reply was lost: it is watched

    def _hand_over(self, job: str) -> None:
        """The job's program and its order."""
        prefix, what = f"{job_prefix(job)}in/", self._what
        files = {"runner.py": inspect.getsource(runner).encode()}
        if what.compiler == "script":
            words, arguments = compile_command("", "{model}", "{output}", ())[1:], what.arguments
            files["script.py"] = what.script
        else:
            degree = str(self.spec.engine.tensor_parallel_degree)
            words = (
                "--model-dir",
                "{input}",
                "--model-id",
                "{model}",
                "--save-mp-checkpoint-path",
                "{output}",
            )
            words, arguments = (*words, "--tensor-parallel-degree", degree), ()
            files[SERVING_PROPERTIES] = write_properties(self._properties())
        if what.requirements:
            files["compile-requirements.txt"] = what.requirements
        order = {
            "words": words,
            "arguments": compile_command("", "", "", arguments)[5:],
            "requirements": "compile-requirements.txt" if what.requirements else "",
        }
        files["order.json"] = (json.dumps(order, indent=1) + "\n").encode()
        for name, content in files.items():
            self.depot.store.put(prefix + name, content)

    def _properties(self) -> list[tuple[str, str]]:
        """What the partition program reads, without the location of the model, which is an argument."""
        engine = [
            (key, value)
            for key, value in self.spec.engine.properties
            if key in ("engine", "option.entryPoint")
        ]
        return [*engine, *((f"option.{key}", value) for key, value in self._what.options)]

    def _processing(self, job: str, settings: JobSettings) -> JobSettings:
        at = f"s3://{self.depot.bucket}/{job_prefix(job)}"
        program = () if self._what.compiler == "script" else (PARTITION_PROGRAM,)
        return replace(
            settings,
            inputs=(
                ("order", f"{at}in/", f"{INPUT}/order"),
                ("model", weights_address(self.spec), f"{INPUT}/model"),
            ),
            outputs=((f"{OUTPUT}/model", f"{at}out/"), (f"{OUTPUT}/report", f"{at}report/")),
            command=(
                "python3",
                f"{INPUT}/order/runner.py",
                f"{INPUT}/order",
                f"{INPUT}/model",
                f"{OUTPUT}/model",
                f"{OUTPUT}/report/files.json",
                *program,
            ),
        )

    def _optimization(self, job: str, settings: OptimizationSettings) -> OptimizationSettings:
        output = f"s3://{self.depot.bucket}/{job_prefix(job)}out/"
        return replace(settings, source=weights_address(self.spec), output=output)

    @property
    def _what(self) -> CompileSpec:
        place = self.spec.cloud.compile
        assert place is not None
        return place.what

    def _output(self, job: str) -> Iterator[StoredObject]:
        return (one for one in self.depot.store.list(f"{job_prefix(job)}out/") if not one.key.endswith("/"))

    def _stored(self, job: str, action: RunCompileJob) -> Generator[Event, None, Manifest]:
        """The result under its own name. Nothing is stored if a file differs from what the job reported."""
        source = StoredResult(self.depot.store, f"{job_prefix(job)}out/", {})
        listing = yield from self._listing(source, list(self._output(job)), action)
        self._require_reported(job, listing)
        return (yield from self.depot.weights.push(listing, listing.files, source, key=action.key))

    def _listing(
        self, source: StoredResult, objects: list[StoredObject], action: RunCompileJob
    ) -> Generator[Event, None, ModelListing]:
        """Every byte is read once, for its sha256."""
        files, done, total = list[FileEntry](), 0, sum(one.size for one in objects)
        for one in objects:
            path = one.key.removeprefix(source.prefix)
            if why := check_relative_path(path):
                raise IntegrityError(
                    f"{path!r} {why}", hint="write other names of files in the compiler's output"
                )
            yield Progress(key=action.key, done=done, total=total, unit="bytes", note=f"hashing {path}")
            oid = sha256_of(self.depot.store.read(one.key, etag=one.etag))
            source.etags[one.key] = one.etag
            files.append(FileEntry(path=path, size=one.size, oid=oid, kind="sha256"))
            done += one.size
        model = self.spec.model
        return ModelListing(
            model_id=model.model_id,
            commit=action.result,
            files=tuple(files),
            source=model.source,
            compiled=f"{action.compiler}, in {self._what.image}",
        )

    def _require_reported(self, job: str, listing: ModelListing) -> None:
        if self._what.compiler == "optimization":
            return  # the image of AWS lists nothing
        found = self.depot.store.get(f"{job_prefix(job)}{_REPORT}")
        try:
            reported = read_report(found[0] if found else b"")
        except ValueError as reason:
            raise IntegrityError(f"{job}: {reason}", hint="run the same command again") from None
        stored = {file.path: (file.size, file.oid) for file in listing.files}
        for path in sorted(reported.keys() | stored.keys()):
            one = reported.get(path)
            if one is None or (one.size, one.sha256) != stored.get(path):
                raise IntegrityError(
                    f"{job}: {path} in the bucket is not what the job wrote",
                    hint="run the same command again: it compiles again",
                )

    def _failure(self, ended: ObservedJob, action: RunCompileJob) -> CompileFailed:
        """With its whole log, for the diagnosis."""
        why = ended.message or ended.reason
        hint = "correct the cause and run `lmi compile` again; nothing of its output was kept"
        if ended.status == "Stopped" and not why:
            limit = duration_text(action.settings.timeout)
            why = (
                f"by its time limit of {limit}, by `lmi compile --stop`, or by `lmi down` of the deployment that "
                "started it"
            )
            hint = "run `lmi compile` again: it starts a new job. If the time was too short, raise compile.timeout"
        return CompileFailed(
            f"{ended.name}: the job ended {ended.status}: {why or 'no reason given'}",
            hint=hint,
            details=self.watch(ended.name, action).printed(),
        )
