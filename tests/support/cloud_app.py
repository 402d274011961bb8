"""The whole application with a fake AWS account: `lmi` run in process, its deployments on SageMaker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.sagemaker.transfer_job import COMPILE_JOB, job_prefix, read_order
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.ports.cloud import BucketServices
from lmi_deploy.ports.journal import Journal
from lmi_deploy.ports.weights import WeightsStore
from lmi_deploy.sources.local_folder import LocalModelFiles
from lmi_deploy.state.deployment_index import DeploymentIndexFolder
from lmi_deploy.state.state_dir import StateDir
from lmi_deploy.targets.model_compiler import ModelCompiler
from lmi_deploy.targets.sagemaker.adopter import SageMakerAdopter
from lmi_deploy.targets.sagemaker.compile_job.compiler import SageMakerCompiler
from lmi_deploy.targets.sagemaker.export.exporter import SageMakerExporter
from lmi_deploy.targets.sagemaker.load_job.machines import LoadMachinesFactory
from lmi_deploy.targets.sagemaker.target import SageMakerTarget
from lmi_deploy.targets.target import AnyTarget
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.compile_jobs import run_processing
from tests.support.fake_cloud import FakeCloud
from tests.support.load_jobs import let_machines_work
from tests.support.local_app import MODEL, LocalApp, Ran

BUCKET = "lmi-123456789012-us-east-1-an"
RECIPE = f"""\
name: tiny
model_id: {MODEL}
engine: accelerate
instance_type: [ml.g5.xlarge, ml.g6.xlarge]
"""
REF = DeploymentRef(name="tiny", target="sagemaker")


@dataclass
class CloudApp(LocalApp):
    """`app.cloud` is the account; each `lmi` command opens it again."""

    target: Callable[[AnyTarget], AnyTarget] = field(default=lambda target: target)
    compiler: Callable[[ModelCompiler], ModelCompiler] = field(default=lambda compiler: compiler)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cloud = FakeCloud(self.clock)
        self.cloud.jobs.work = self.run_job
        self.cloud.jobs.look = self.run_load_machines
        self.cloud.optimizations.work = self.run_optimization

    def deps(self) -> Dependencies:
        plain = super().deps()
        self.cloud.begin_process()
        remote = self.sagemaker()

        def journal(ref: DeploymentRef) -> Journal:
            if ref.target == "local":
                return plain.journal(ref)
            return self.journal(remote.opened(ref).records.journal(ref))

        return replace(
            plain,
            targets={**plain.targets, "sagemaker": self.target(remote)},
            adopter=lambda: SageMakerAdopter(target=cast("SageMakerTarget", self.target(remote))),
            compilers={**plain.compilers, "sagemaker": self.compiler(SageMakerCompiler(target=remote))},
            exporters={"sagemaker": SageMakerExporter(target=remote)},
            weights=self._weights,
            cloud=self.cloud.cloud,
            price_list=self.cloud.prices,
            load_machines=LoadMachinesFactory(
                cloud=self.cloud.cloud,
                store=lambda ref: remote.opened(ref).store,
                clock=self.clock,
                job_files=dict,
            ),
            images=self.cloud.builder,
            journal=journal,
            lock=lambda ref: plain.lock(ref) if ref.target == "local" else remote.opened(ref).lock,
        )

    def sagemaker(self) -> SageMakerTarget:
        return SageMakerTarget(
            cloud=self.cloud.cloud,
            depot=self.cloud.depot,
            files=LocalModelFiles,
            remembered=DeploymentIndexFolder(StateDir(self.root / "state").root / "elsewhere"),
            clock=self.clock,
            job_files=dict,
            builder=self.cloud.builder,
        )

    def observe(self) -> CloudObserved:
        return self.sagemaker().observe_all(REF)

    def run_job(self, job: str) -> str | None:
        """The work of a processing job's instances; why it failed."""
        if job.startswith(COMPILE_JOB):
            settings = self.cloud.jobs.started[job][0]
            return run_processing(settings, self.depot_of_a_job().store, self.root / "jobs" / job)
        if self.cloud.jobs.started[job][0].purpose == "transfer":
            self.run_transfer_job(job)
        return None

    def run_load_machines(self, job: str, machines: int) -> None:
        let_machines_work(self.depot_of_a_job().store, job, machines)

    def run_optimization(self, job: str) -> str | None:
        """Its result: the model's files, and what an image of LMI adds."""
        settings = self.cloud.optimizations.started[job][0]
        store = self.depot_of_a_job().store
        source, output = read_prefix(settings.source).path, read_prefix(settings.output).path
        for one in list(store.list(source)):
            store.put(output + one.key.removeprefix(source), b"".join(store.read(one.key)))
        lines = [f"{name}={value}" for name, value in settings.environment]
        store.put(f"{output}compiled/graph.neff", "\n".join(lines).encode())
        store.put(f"{output}serving.properties", b"option.load_split_model=true\noption.model_dir=/tmp\n")
        return None

    def run_transfer_job(self, job: str) -> None:
        """Does the work of a transfer job's instances."""
        bucket_services = self.depot_of_a_job()
        found = bucket_services.store.get(f"{job_prefix(job)}in/order.json")
        assert found is not None
        for _ in bucket_services.weights.push_shard(
            read_order(found[0]), self.hub, number=0, count=1, key=job
        ):
            pass

    def record(self) -> Record:
        record = self.depot().records.read("tiny")
        assert record is not None
        return record

    def depot_of_a_job(self) -> BucketServices:
        return self.depot()

    def depot(self) -> BucketServices:
        bucket_services = self.cloud.depot(self.cloud.cloud(), self.bucket)
        assert bucket_services is not None
        return bucket_services

    @property
    def bucket(self) -> str:
        caller = self.cloud.account_state.caller
        return f"lmi-{caller.account}-{caller.region}-an"

    def up(self, *argv: str) -> Ran:
        result = self.lmi("up", "--yes", *argv)
        assert result.code == 0, result.err
        return result

    def cloud_resources(self) -> list[str]:
        """Everything with our tag, and every object of the deployment."""
        tagged = [resource.arn for resource in self.cloud.account_state.resources()]
        objects = [s.key for store in self.cloud.stores.values() for s in store.list("")]
        return [*tagged, *(key for key in objects if "/tiny/" in key)]

    def _weights(self, bucket_request: BucketRequest, memory_mb: int | None) -> WeightsStore:
        return self.depot().weights


def while_waiting(app: CloudApp, act: Callable[[], None]) -> None:
    """From now on `act` happens after each pause of `lmi`: what another program does in the meantime."""
    sleep = app.clock.sleep

    def paused(seconds: float) -> None:
        sleep(seconds)
        act()

    app.clock.sleep = paused  # type: ignore[method-assign]


def write_recipe(text: str = RECIPE) -> None:
    Path("tiny.yaml").write_text(text)
