"""The port ModelCompiler of target sagemaker: jobs near the bucket, results beside the weights."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import CompiledModel, FileEntry, ModelListing
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.sagemaker.job_actions import RunCompileJob
from lmi_deploy.domain.sagemaker.tags import compile_tags
from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.errors import IntegrityError
from lmi_deploy.ports.cloud import BucketServices
from lmi_deploy.targets.model_compiler import CompilePlan
from lmi_deploy.targets.sagemaker.compile_job.perform import CompileJobs
from lmi_deploy.targets.sagemaker.endpoint_waiter import poll_intervals
from lmi_deploy.targets.sagemaker.plan.compile import compile_estimate, compile_hourly, compile_plan, run_job
from lmi_deploy.targets.sagemaker.preflight import preflight_compile
from lmi_deploy.targets.sagemaker.target import SageMakerTarget
from lmi_deploy.targets.target import Hubs, Outcome, Perform


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerCompiler:
    target: SageMakerTarget
    detached: ClassVar[bool] = True

    def compiled(self, spec: Spec) -> CompiledModel | None:
        place = spec.cloud.compile
        depot = self.target.depot(self.target.cloud(spec.cloud.region), spec.cloud.bucket)
        if place is None or depot is None:
            return None
        manifest = depot.weights.at_commit(spec.model.model_id, place.what.identity)
        return None if manifest is None else _compiled(spec, manifest, depot)

    def plan(self, spec: Spec, hubs: Hubs, recipe: str) -> CompilePlan:
        cloud = self.target.cloud(spec.cloud.region)
        inventory = self.target.inventory(spec, hubs)
        plan = compile_plan(spec, inventory)
        notices = preflight_compile(spec, plan, cloud, recipe)
        place = spec.cloud.compile
        if place is not None and place.what.compiler != "optimization":
            inventory = replace(inventory, job_price=cloud.prices.hourly(place.instance, "processing"))
        return CompilePlan(
            plan=plan,
            estimate=compile_estimate(spec, inventory),
            notices=notices,
            hourly=compile_hourly(spec, inventory),
        )

    def actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        tags = compile_tags(spec)
        return {
            **self.target.deploy_actions(spec, artifact, hubs),
            RunCompileJob: lambda action: self._jobs(spec).run(action, tags=tags),
        }

    def stop(self, spec: Spec) -> Generator[Event, None, Outcome]:
        if self.target.depot(self.target.cloud(spec.cloud.region), spec.cloud.bucket) is None:
            return "no such job is running"
        return (yield from self._jobs(spec).stop(run_job(spec)))

    def running(self, spec: Spec) -> str:
        job = self._jobs(spec).running(run_job(spec))
        return f"the job {job} still runs, and costs money until it ends" if job else ""

    def _jobs(self, spec: Spec) -> CompileJobs:
        return CompileJobs(
            spec=spec,
            cloud=self.target.cloud(spec.cloud.region),
            depot=self.target.opened(spec.ref),
            clock=self.target.clock,
            poll_intervals=poll_intervals,
        )


def _compiled(spec: Spec, manifest: Manifest, depot: BucketServices) -> CompiledModel:
    files = tuple(FileEntry(path=f.path, size=f.size, oid=f.oid, kind=f.kind) for f in manifest.files)
    listing = ModelListing(
        model_id=spec.model.model_id,
        commit=manifest.commit,
        files=files,
        source=spec.model.source,
        compiled=manifest.compiled,
    )
    if SERVING_PROPERTIES not in {file.path for file in files}:
        return CompiledModel(listing=listing)
    key = weights_prefix(manifest.name) + SERVING_PROPERTIES
    found = depot.store.get(key)
    try:
        properties = parse_properties(found[0]) if found else {}
    except ValueError as reason:
        raise IntegrityError(
            f"{key}: {reason}", hint="the compiler wrote it: correct its script, and compile again"
        ) from None
    return CompiledModel(listing=listing, properties=tuple(properties.items()))
