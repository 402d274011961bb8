"""The whole house in front of a fake AWS account: `lmi` run in process, its deployments on SageMaker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from lmi_deploy.domain.observed import CloudObserved
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.domain.sagemaker.transfer_job import job_prefix, read_order
from lmi_deploy.domain.weights import BucketWish
from lmi_deploy.ports.cloud import Depot
from lmi_deploy.ports.journal import Journal
from lmi_deploy.ports.weights import Weights
from lmi_deploy.sources.local_folder import FolderFiles
from lmi_deploy.state.deployment_index import RememberedFolder
from lmi_deploy.state.state_dir import StateFolder
from lmi_deploy.targets.sagemaker.target import SageMakerTarget
from lmi_deploy.targets.target import Target
from lmi_deploy.workflows.dependencies import Deps
from tests.support.fake_cloud import FakeCloud
from tests.support.fake_hosting import Process
from tests.support.local_app import MODEL, House, Ran

BUCKET = "lmi-123456789012-us-east-1-an"
RECIPE = f"""\
name: tiny
model_id: {MODEL}
engine: accelerate
instance_type: [ml.g5.xlarge, ml.g6.xlarge]
"""
REF = DeploymentRef(name="tiny", target="sagemaker")


@dataclass
class CloudHouse(House):
    """`house.cloud` is the account; whatever is done through `lmi` opens it anew."""

    target: Callable[[Target], Target] = field(default=lambda target: target)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cloud = FakeCloud(self.clock)
        self.cloud.jobs.work = self.carry

    def deps(self) -> Deps:
        plain = super().deps()
        self.cloud.world.process = Process()
        far = self.sagemaker()

        def journal(ref: DeploymentRef) -> Journal:
            if ref.target == "local":
                return plain.journal(ref)
            return self.journal(far.opened(ref).records.journal(ref))

        return replace(
            plain,
            targets={**plain.targets, "sagemaker": self.target(far)},
            weights=self._weights,
            cloud=self.cloud.cloud,
            journal=journal,
            lock=lambda ref: plain.lock(ref) if ref.target == "local" else far.opened(ref).lock,
        )

    def sagemaker(self) -> SageMakerTarget:
        return SageMakerTarget(
            cloud=self.cloud.cloud,
            depot=self.cloud.depot,
            files=FolderFiles,
            remembered=RememberedFolder(StateFolder(self.root / "state").root / "elsewhere"),
            clock=self.clock,
            luggage=dict,
        )

    def seen(self) -> CloudObserved:
        return self.sagemaker().survey(REF)

    def carry(self, job: str) -> None:
        """What the instances of a transfer job do."""
        depot = self.depot_of_a_job()
        found = depot.store.get(f"{job_prefix(job)}in/order.json")
        assert found is not None
        for _ in depot.weights.push_shard(read_order(found[0]), self.hub, number=0, count=1, key=job):
            pass

    def record(self) -> Record:
        record = self.depot().records.read("tiny")
        assert record is not None
        return record

    def depot_of_a_job(self) -> Depot:
        return self.depot()

    def depot(self) -> Depot:
        depot = self.cloud.depot(self.cloud.cloud(), self.bucket)
        assert depot is not None
        return depot

    @property
    def bucket(self) -> str:
        caller = self.cloud.world.caller
        return f"lmi-{caller.account}-{caller.region}-an"

    def up(self, *argv: str) -> Ran:
        ran = self.lmi("up", "--yes", *argv)
        assert ran.code == 0, ran.err
        return ran

    def kept_in_cloud(self) -> list[str]:
        """Everything that carries our tag, and every object of the deployment."""
        tagged = [resource.arn for resource in self.cloud.world.resources()]
        objects = [s.key for store in self.cloud.stores.values() for s in store.list("")]
        return [*tagged, *(key for key in objects if "/tiny/" in key)]

    def _weights(self, wish: BucketWish, memory_mb: int | None) -> Weights:
        return self.depot().weights


def write_recipe(text: str = RECIPE) -> None:
    Path("tiny.yaml").write_text(text)
