"""The part of the composition root that opens the targets, with their records and locks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

# Reading a recipe needs `recipe_issues` alone, and importing the ports would double its time.
if TYPE_CHECKING:
    from lmi_deploy.aws.clock_skew import ClockSkew
    from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
    from lmi_deploy.domain.recipe_endpoint_keys import TargetName
    from lmi_deploy.domain.recipe_keys import Recipe
    from lmi_deploy.domain.record import DeploymentRef
    from lmi_deploy.ports.account import Account
    from lmi_deploy.ports.clock import Clock
    from lmi_deploy.ports.cloud import BucketServices, Cloud
    from lmi_deploy.ports.image_builder import ImageBuilder
    from lmi_deploy.ports.journal import Journal
    from lmi_deploy.ports.lock import Lock
    from lmi_deploy.ports.message_callback import Notify
    from lmi_deploy.recipe.checks.issue import Issue
    from lmi_deploy.state.state_dir import StateDir
    from lmi_deploy.targets.endpoint_adopter import EndpointAdopter
    from lmi_deploy.targets.local.target import LocalTarget
    from lmi_deploy.targets.model_compiler import ModelCompiler
    from lmi_deploy.targets.sagemaker.target import SageMakerTarget
    from lmi_deploy.targets.stack_exporter import StackExporter
    from lmi_deploy.workflows.dependencies import LoadMachinesOf


@dataclass(frozen=True, slots=True)
class CloudFactory:
    """Accounts by region and buckets by name, each opened once a command, when it is first used."""

    clock: Clock
    environ: Mapping[str, str]
    notify: Notify
    guard: LeaseGuard
    skew: ClockSkew
    profile: str = ""
    """Empty: the one of AWS's own chain."""
    _clouds: dict[str, Cloud] = field(default_factory=dict)
    _depots: dict[tuple[str, str], BucketServices] = field(default_factory=dict)

    def cloud(self, region: str) -> Cloud:
        from lmi_deploy.composition.aws import open_cloud

        if region not in self._clouds:
            cloud = open_cloud(
                region,
                self.clock,
                self.environ,
                notify=self.notify,
                guard=self.guard,
                profile=self.profile,
                skew=self.skew,
            )
            self._clouds[region] = self._clouds[cloud.caller.region] = cloud
        return self._clouds[region]

    def opened_account(self, region: str, profile: str) -> Account | None:
        """None if this command has opened nothing there yet."""
        cloud = self._clouds.get(region) if profile == self.profile else None
        return cloud.account if cloud else None

    def depot(self, cloud: Cloud, bucket: str) -> BucketServices | None:
        """A missing bucket may be created later: only existing ones are cached."""
        from lmi_deploy.composition.aws import open_bucket_services

        key = (cloud.caller.region, bucket)
        if key not in self._depots:
            found = open_bucket_services(
                cloud,
                bucket,
                self.clock,
                self.environ,
                notify=self.notify,
                guard=self.guard,
                profile=self.profile,
            )
            if found is None:
                return None
            self._depots[key] = found
        return self._depots[key]


def recipe_issues(recipe: Recipe) -> Iterator[Issue]:
    """What the recipe's target would refuse of it, before any target is opened."""
    if recipe.endpoint.target == "sagemaker":
        # Its rules load every engine, image and instance: a quarter of the time to check a recipe for this machine.
        from lmi_deploy.targets.sagemaker.validate import validate

        yield from validate(recipe)


def sagemaker(
    clouds: CloudFactory,
    clock: Clock,
    remembered: Path,
    builder: ImageBuilder,
    *,
    hub_address: Callable[[], str],
) -> SageMakerTarget:
    from lmi_deploy.composition.transfer_job import job_files
    from lmi_deploy.sources.local_folder import LocalModelFiles
    from lmi_deploy.state.deployment_index import DeploymentIndexFolder
    from lmi_deploy.targets.sagemaker.target import SageMakerTarget

    return SageMakerTarget(
        cloud=clouds.cloud,
        depot=clouds.depot,
        files=LocalModelFiles,
        remembered=DeploymentIndexFolder(remembered),
        clock=clock,
        job_files=job_files,
        builder=builder,
        hub_address=hub_address,
    )


def compilers(local: LocalTarget, cloud: SageMakerTarget) -> Mapping[TargetName, ModelCompiler]:
    from lmi_deploy.targets.local.compiler import LocalCompiler
    from lmi_deploy.targets.sagemaker.compile_job.compiler import SageMakerCompiler

    return {"local": LocalCompiler(target=local), "sagemaker": SageMakerCompiler(target=cloud)}


def exporters(cloud: SageMakerTarget) -> Mapping[TargetName, StackExporter]:
    from lmi_deploy.targets.sagemaker.export.exporter import SageMakerExporter

    return {"sagemaker": SageMakerExporter(target=cloud)}


def adopter(cloud: SageMakerTarget) -> EndpointAdopter:
    from lmi_deploy.targets.sagemaker.adopter import SageMakerAdopter

    return SageMakerAdopter(target=cloud)


def image_builder(environ: Mapping[str, str], inherited: Mapping[str, str]) -> ImageBuilder:
    """`inherited`: the variables of its programs."""
    from lmi_deploy.host.background_processes import LocalProcesses
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.runtimes.container.container_cli import find_engine
    from lmi_deploy.runtimes.container.image_builder import ContainerImageBuilder

    return ContainerImageBuilder(
        processes=LocalProcesses(SystemClock()),
        environment=dict(inherited),
        find=lambda: find_engine(environ),
    )


def journals(state: StateDir, target: SageMakerTarget) -> Callable[[DeploymentRef], Journal]:
    """Where a deployment's record is written: next to its resources."""
    from lmi_deploy.state.state_dir import FileJournal

    places: Mapping[str, Callable[[DeploymentRef], Journal]] = {
        "local": lambda ref: FileJournal(folder=state, ref=ref),
        "sagemaker": lambda ref: target.opened(ref).records.journal(ref),
    }
    return lambda ref: places[ref.target](ref)


def load_machines(target: SageMakerTarget, environ: Mapping[str, str]) -> LoadMachinesOf:
    from lmi_deploy.composition.load_job import load_job_files
    from lmi_deploy.targets.sagemaker.load_job.machines import LoadMachinesFactory

    return LoadMachinesFactory(
        cloud=target.cloud,
        store=lambda ref: target.opened(ref).store,
        clock=target.clock,
        job_files=lambda: load_job_files(environ),
    )


def locks(state: StateDir, target: SageMakerTarget, clock: Clock) -> Callable[[DeploymentRef], Lock]:
    from lmi_deploy.state.state_dir import FileLock

    lock = FileLock(state.root, clock, command=f"lmi {' '.join(sys.argv[1:2])}")
    places: Mapping[str, Callable[[DeploymentRef], Lock]] = {
        "local": lambda ref: lock,
        "sagemaker": lambda ref: target.opened(ref).lock,
    }
    return lambda ref: places[ref.target](ref)
