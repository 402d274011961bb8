"""The parts of a deployment on SageMaker: settings of its resources, and how they are found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous, DataCapture, Vpc
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.recipe_scaling_keys import InstanceScaling
from lmi_deploy.domain.settings_digest import ADDED, digest_tag

VARIANT: Final = "main"
"""The production variant that serves."""
CANDIDATE: Final = "candidate"
"""The variant of a second version, beside it: a production or a shadow variant."""
MODEL_FOLDER: Final = "/opt/ml/model"
MOUNTS: Final = "/opt/ml/additional-model-data-sources"
"""Where SageMaker mounts an additional model data source, by its channel name."""
WEIGHTS_CHANNEL: Final = "weights"
DRAFT_CHANNEL: Final = "draft"
"""The draft model of speculative decoding: vLLM reads it from a folder, and the server downloads no second model."""

TAG: Final = "lmi:deployment"
"""Every resource of lmi has it; its value is the deployment's name."""
TAG_SPEC: Final = "lmi:spec"
TAG_BUCKET: Final = "lmi:bucket"
TAG_VERSION: Final = "lmi:version"
TAG_ENGINE: Final = "lmi:engine"
TAG_TASK: Final = "lmi:task"
TAG_EXPIRES: Final = "lmi:expires-at"
TAG_PURPOSE: Final = "lmi:purpose"
TAG_WEIGHTS: Final = "lmi:weights"
"""The weights in the bucket that it serves from: a command that removes weights must see them without a record."""
TAG_DRAFT: Final = "lmi:draft-weights"
"""The same of the draft model. Adapters have none: the artifact contains copies of them."""
TAG_IN_PLACE: Final = "lmi:weights-in-place"
"""The address of weights that lmi does not own: `lmi weights rm` in their bucket must see that they are used."""
TAG_VALUE_LENGTH: Final = 256
"""SageMaker API reference, Tag: Value."""
TAG_TTL: Final = "lmi:ttl"
"""Of an endpoint: the seconds of the recipe's `ttl` that its expiry was last set from."""

TAG_SCHEDULER: Final = "lmi:scheduler-role"
"""Of an endpoint: the role with which EventBridge Scheduler deletes it at its expiry."""

TAG_ADOPTED: Final = "lmi:adopted"
"""Of resources that `lmi adopt` took over, whose names are not of lmi's form: with it, the tag TAG proves ownership."""

TAG_SHARED: Final = "lmi:shared"
"""Of an endpoint for inference components, and of its config: the deployment that created it. Its TAG is its own name.
"""

TAG_ADAPTER: Final = "lmi:adapter"
"""Of an inference component that is a LoRA adapter: its name in requests."""

TAG_DASHBOARD: Final = "lmi:dashboard"
"""Of an endpoint or an inference component: the CloudWatch dashboard that `lmi dashboard` wrote for it."""

Delivery = Literal["s3", "mount", "artifact"]
"""How the container gets the weights: it downloads them itself; SageMaker mounts them; they are in the artifact."""
ResourceKind = Literal[
    "endpoint",
    "endpoint-config",
    "model",
    "processing-job",
    "optimization-job",
    "inference-component",
    "alarm",
    "adapter-component",
]
"""SageMaker's, and CloudWatch's alarms. To AWS an adapter is an inference component: its tag distinguishes it."""
SERVING_KINDS: Final[frozenset[ResourceKind]] = frozenset({"endpoint", "inference-component"})
"""The resources that serve a deployment and have its name: an endpoint, or an inference component of a shared one."""


@digest_tag("Mount")
@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """An additional model data source: `uri` is an s3:// prefix with a final slash."""

    channel: str
    uri: str


@digest_tag("ModelSettings")
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """All of CreateModel but name and tags."""

    role: str
    image: str
    environment: Pairs
    artifact: str
    """s3:// prefix, with a final slash, whose objects SageMaker copies to /opt/ml/model."""
    mounts: tuple[Mount, ...] = ()
    network_isolation: bool = False
    vpc: Vpc | None = None


@digest_tag("PoolSettings")
@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The instance pools of a variant beside its own instance type, which has the highest priority."""

    others: tuple[str, ...]
    """Instance types, the preferred one first."""
    provision_timeout: int
    """Seconds that SageMaker looks for capacity, in all pools together."""

    @property
    def words(self) -> str:
        return f"SageMaker takes the first type with capacity, within {seconds_text(self.provision_timeout)}"


@digest_tag("CandidateVariant")
@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateVariant:
    """A second variant of an endpoint config."""

    model: str
    instance: str
    count: int
    model_download: int
    """Seconds."""
    startup: int
    """Seconds."""
    volume_gb: int = 0
    host_ami: str = ""
    shadow_percent: int = 0
    """0: a production variant, which gets no request before `lmi` sets its weight."""


@digest_tag("EndpointConfigSettings")
@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointConfigSettings:
    """All of CreateEndpointConfig but name and tags. Zero and empty text mean that a field is not sent."""

    model: str
    """Empty for an endpoint whose models are inference components: then `role` is given."""
    instance: str
    count: int
    model_download: int
    """Seconds."""
    startup: int
    """Seconds; the health check's time-out."""
    volume_gb: int = 0
    host_ami: str = ""
    kms_key: str = ""
    data_capture: DataCapture | None = field(default=None, metadata=ADDED)
    asynchronous: Asynchronous | None = field(default=None, metadata=ADDED)
    """With an output."""
    role: str = field(default="", metadata=ADDED)
    vpc: Vpc | None = field(default=None, metadata=ADDED)
    """As `role`, of an endpoint for inference components: else they belong to its model."""
    candidate: CandidateVariant | None = field(default=None, metadata=ADDED)
    instance_scaling: InstanceScaling | None = field(default=None, metadata=ADDED)
    """Managed instance scaling, of an endpoint for inference components."""
    instance_pools: PoolSettings | None = field(default=None, metadata=ADDED)

    @property
    def types(self) -> tuple[str, ...]:
        """The instance types of the variant that serves, by priority."""
        return (self.instance, *(self.instance_pools.others if self.instance_pools else ()))

    @property
    def placement(self) -> Placement:
        return Placement(
            instance=self.instance,
            volume_gb=self.volume_gb,
            host_ami=self.host_ami,
            instance_pools=self.instance_pools,
        )

    @property
    def instances(self) -> str:
        """In words."""
        main = f"{self.count} x {' or '.join(self.types)}"
        return f"{main} and {self.candidate.count} x {self.candidate.instance}" if self.candidate else main


@digest_tag("Placement")
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One way to run it; the first of a list that can be had is taken."""

    instance: str
    volume_gb: int
    """0: the instance has a local disk, or SageMaker's default volume is large enough."""
    host_ami: str
    """Empty: SageMaker's default."""
    instance_pools: PoolSettings | None = field(default=None, metadata=ADDED)
    """SageMaker itself tries these, too, when it creates the endpoint and when it adds instances."""

    @property
    def types(self) -> tuple[str, ...]:
        """By priority."""
        return (self.instance, *(self.instance_pools.others if self.instance_pools else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedModel:
    name: str
    arn: str
    settings: ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEndpointConfig:
    name: str
    arn: str
    settings: EndpointConfigSettings
    created: str = ""
    models: tuple[str, ...] = ()
    """Of every production and shadow variant: the models that an endpoint with this config runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCandidate:
    """The second variant of an endpoint, as in DescribeEndpoint."""

    shadow: bool
    percent: int
    """As last requested: of the requests it answers, or gets a copy of."""
    count: int
    desired_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEndpoint:
    """An endpoint as in DescribeEndpoint. `config` is the current one; during an update `pending` is the next one.

    `status` is AWS's own: Creating, Updating, SystemUpdating, RollingBack, InService, OutOfService, Deleting, Failed,
    UpdateRollbackFailed.
    """

    name: str
    arn: str
    status: str
    config: str
    pending: str = ""
    reason: str = ""
    count: int = 0
    desired_count: int = 0
    created: str = ""
    modified: str = ""
    variant: str = VARIANT
    """The name of its first production variant: another one only until the first `lmi up` after an `lmi adopt`."""
    shared: str = field(default="", metadata=ADDED)
    """The endpoint of which this is an inference component: then `config` names its settings, and `count` its copies.
    """
    candidate: ObservedCandidate | None = field(default=None, metadata=ADDED)
    pools: tuple[tuple[str, int], ...] = field(default=(), metadata=ADDED)
    """With instance pools: each instance type, and how many of it there are now."""

    @property
    def running_types(self) -> tuple[tuple[str, int], ...]:
        """Those of `pools` with an instance, the most frequent first."""
        return tuple(sorted((pool for pool in self.pools if pool[1]), key=lambda pool: -pool[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEndpoint:
    """An endpoint as ListEndpoints shows it, without its config, instances and tags; or an inference component."""

    name: str
    status: str
    """AWS's own, as of an ObservedEndpoint."""
    created: str
    """ISO 8601."""
    modified: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something that a tag search found."""

    kind: ResourceKind
    name: str
    arn: str
    tags: Pairs

    def tag(self, key: str) -> str:
        return next((value for name, value in self.tags if name == key), "")


def resource_kind(kind: ResourceKind, tags: Pairs) -> ResourceKind:
    """By the kind in an ARN, and the tags."""
    is_adapter = kind == "inference-component" and any(key == TAG_ADAPTER for key, _ in tags)
    return "adapter-component" if is_adapter else kind


COSTS_NOTHING: Final = frozenset({"Failed", "Deleting"})
"""Endpoint statuses without an instance, or that lose them now."""
SETTLING: Final = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})
"""Endpoint statuses that will change by themselves."""


def variants(*, main: bool, candidate: bool) -> str:
    """Which of the two versions an action is for, in words."""
    return " and ".join([VARIANT] * main + [CANDIDATE] * candidate)
