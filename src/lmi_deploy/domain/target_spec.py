"""The targets of a spec, with all choices made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from lmi_deploy.domain.compile import CompileSpec
from lmi_deploy.domain.environment_setup import PLAIN, EnvironmentSetup
from lmi_deploy.domain.image_build import ImageBuild
from lmi_deploy.domain.recipe_endpoint_keys import (
    Asynchronous,
    DataCapture,
    RuntimeName,
    TargetName,
    UpdatePolicy,
    Vpc,
)
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.recipe_scaling_keys import InstanceScaling
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.alarm_settings import EndpointAlarms
from lmi_deploy.domain.sagemaker.component_settings import ComponentPlace
from lmi_deploy.domain.sagemaker.resource_settings import Delivery, Placement
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling
from lmi_deploy.domain.settings_digest import ADDED, digest_tag
from lmi_deploy.domain.weights import Travel


@digest_tag("LocalCompilePlace")
@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCompilePlace:
    """How `lmi compile` runs the recipe's script on this machine."""

    what: CompileSpec
    environment: str
    """The name of the environment that the script runs in."""
    packages: tuple[str, ...]
    requirements: str
    setup: EnvironmentSetup
    timeout: int
    """Seconds."""


@digest_tag("LocalPlace")
@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlace:
    target: ClassVar[TargetName] = "local"
    runtime: RuntimeName
    host: str
    port: int
    device_memory: int
    """Bytes available to the model: of the accelerator, else of the machine."""
    device: str
    startup_timeout: int
    """Seconds."""
    environment: Pairs
    """Variables that the server is started with, as the container would be."""
    packages: tuple[str, ...]
    """The requirements of the worker's environment, before the recipe's own."""
    setup: EnvironmentSetup = PLAIN
    image: str = ""
    """The image for runtime `container`; empty for the others."""
    build: ImageBuild | None = field(default=None, metadata=ADDED)
    """How lmi makes that image; its address contains the digest of all of this."""
    compile: LocalCompilePlace | None = field(default=None, metadata=ADDED)
    """Of a recipe with `compile`, until its result is served."""

    def ref(self, name: str) -> DeploymentRef:
        """How a deployment of this name is found again."""
        return DeploymentRef(name=name, target=self.target)

    @property
    def fields(self) -> dict[str, str]:
        """For a program."""
        return {"runtime": self.runtime}

    @property
    def words(self) -> str:
        """The runtime and the device, as they are shown behind its address."""
        return f"runtime {self.runtime}, {self.device}"


@digest_tag("JobPlace")
@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """The target of a transfer job (`weights.via: job`)."""

    image: str
    """Any with Python 3.11 or newer; our own packages are in the bucket."""
    role: str
    """ARN of the role that it runs with: it writes weights, which the endpoint's role may not."""
    instance: str
    count: int
    volume_gb: int
    timeout: int
    """Seconds."""
    hub: str = ""
    """The Hub that it fetches from; empty: the public one."""


@digest_tag("CompilePlace")
@dataclass(frozen=True, slots=True, kw_only=True)
class CompilePlace:
    """The job of `lmi compile`."""

    what: CompileSpec
    image: str
    role: str
    """ARN of the role that the job runs with."""
    instance: str
    """Of a processing job; of an optimization job the type that will serve: SageMaker chooses the one that compiles."""
    volume_gb: int
    timeout: int
    """Seconds."""


@digest_tag("SageMakerPlace")
@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerPlace:
    target: ClassVar[TargetName] = "sagemaker"
    account: str
    partition: str
    region: str
    bucket: str
    role: str
    """ARN of the execution role."""
    image: str
    placements: tuple[Placement, ...]
    count: int
    environment: Pairs
    """The container's complete environment, lmi's variables included, sorted by name."""
    delivery: Delivery
    model_download: int
    """Seconds."""
    startup_timeout: int
    """Seconds."""
    network_isolation: bool
    vpc: Vpc | None
    kms_key: str
    """Empty: AWS's own key."""
    scaling: Scaling | None
    tags: Pairs
    """The user's own."""
    ttl: int
    """Seconds; 0: no expiry."""
    travel: Travel
    token_secret: str
    job: JobPlace | None = None
    """With `travel.via` job alone."""
    scheduler_role: str = field(default="", metadata=ADDED)
    """ARN of the role with which EventBridge Scheduler deletes the endpoint at its expiry; empty: only `lmi gc`
    does.
    """
    compile: CompilePlace | None = field(default=None, metadata=ADDED)
    """Of a recipe with `compile`, until its result is served."""
    build: ImageBuild | None = field(default=None, metadata=ADDED)
    """How lmi makes the image; its address contains the digest of all of this."""
    data_capture: DataCapture | None = field(default=None, metadata=ADDED)
    asynchronous: Asynchronous | None = field(default=None, metadata=ADDED)
    """With its output: by default in `bucket`."""
    update: UpdatePolicy | None = field(default=None, metadata=ADDED)
    """With its step; None: all at once."""
    component: ComponentPlace | None = field(default=None, metadata=ADDED)
    """Of a model on a shared endpoint."""
    alarms: EndpointAlarms | None = field(default=None, metadata=ADDED)
    regions: tuple[str, ...] = field(default=(), metadata=ADDED)
    """All regions of the recipe, `region` among them; empty if it names one."""
    instance_scaling: InstanceScaling | None = field(default=None, metadata=ADDED)
    """Of the shared endpoint."""

    @property
    def scalable_kind(self) -> ScalableKind:
        """What `scaling` scales."""
        return "component" if self.component else "variant"

    @property
    def instances(self) -> tuple[int, int]:
        """The fewest and the most that the endpoint may have."""
        if self.instance_scaling is not None:
            return self.instance_scaling.min, self.instance_scaling.max
        if self.scaling is None or self.component is not None:
            return self.count, self.count
        return self.scaling.lowest, self.scaling.highest

    def ref(self, name: str) -> DeploymentRef:
        """How a deployment of this name is found again."""
        return DeploymentRef(
            name=name,
            target=self.target,
            region=self.region,
            bucket=self.bucket,
            account=self.account,
            shared=self.component.endpoint if self.component else "",
        )

    @property
    def fields(self) -> dict[str, str]:
        """For a program."""
        return {
            "runtime": self.target,
            "account": self.account,
            "region": self.region,
            "bucket": self.bucket,
        }

    @property
    def words(self) -> str:
        return ""  # the address has the region


Place = LocalPlace | SageMakerPlace
