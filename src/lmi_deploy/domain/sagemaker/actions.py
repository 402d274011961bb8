"""The actions of a deployment on SageMaker: each concrete, the first field names its object."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmi_deploy.domain.action import ActionBase, Phase, in_brackets
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.adoption_actions import AdoptResource, RemoveForeignScaling
from lmi_deploy.domain.sagemaker.alarm_actions import AlarmAction
from lmi_deploy.domain.sagemaker.component_actions import ComponentAction
from lmi_deploy.domain.sagemaker.expiry import duration_text
from lmi_deploy.domain.sagemaker.image_actions import DeleteImage, DeleteRepository, MakeRepository, PushImage
from lmi_deploy.domain.sagemaker.job_actions import JobAction
from lmi_deploy.domain.sagemaker.resource_settings import EndpointConfigSettings, ModelSettings
from lmi_deploy.domain.sagemaker.scaling_actions import ScalingAction
from lmi_deploy.domain.settings_digest import ADDED


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeBucket(ActionBase):
    """The account's default bucket: private, encrypted, tagged. Before the lock, which is stored in it."""

    phase = Phase.BOOTSTRAP
    verb = "create the bucket"
    bucket: str
    region: str
    kms_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushWeights(ActionBase):
    """The chosen files into the bucket from here, streamed or through the Hub's cache."""

    phase = Phase.STORE
    weights: str
    model_id: str
    commit: str
    via: str
    size: int
    """Bytes of all files; those already in the bucket are not transferred again."""
    what: str = field(default="", metadata=ADDED)
    """Of an additional model: its role and its name."""
    origin: str = field(default="", metadata=ADDED)
    """The region whose bucket has them; empty: they come from their source."""
    variant: str = field(default="", metadata=ADDED)

    @property
    def title(self) -> str:
        what = f"the {self.what}, " * bool(self.what) + f"{self.model_id} at {self.commit[:8]}"
        end = f"from the bucket in {self.origin}" if self.origin else "to the bucket"
        return f"{'copy' if self.origin else 'push'} {what} {end}{in_brackets(self.variant)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateModel(ActionBase):
    phase = Phase.CREATE
    starts_code = True
    model: str
    settings: ModelSettings
    variant: str = field(default="", metadata=ADDED)

    @property
    def title(self) -> str:
        return f"create the model {self.model}{in_brackets(self.variant)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEndpointConfig(ActionBase):
    phase = Phase.CREATE
    config: str
    settings: EndpointConfigSettings

    @property
    def title(self) -> str:
        return f"create the endpoint config {self.config} ({self.settings.instances})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEndpoint(ActionBase):
    """From here on it costs money."""

    phase = Phase.START
    verb = "create the endpoint"
    binding = True
    endpoint: str
    config: str
    tags: Pairs = ()
    """The user's own; ours are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateEndpoint(ActionBase):
    phase = Phase.START
    binding = True
    endpoint: str
    config: str
    keep_count: bool
    """Whether the number of instances that autoscaling arrived at stays."""
    policy: UpdatePolicy | None = field(default=None, metadata=ADDED)

    @property
    def title(self) -> str:
        policy = f" ({self.policy.words})" if self.policy else ""
        return f"update the endpoint {self.endpoint} to {self.config}{policy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitService(ActionBase):
    """InService with exactly this config; a roll-back to another one is a failure."""

    phase = Phase.WAIT
    endpoint: str
    config: str
    timeout: int
    """Seconds."""

    @property
    def title(self) -> str:
        return f"wait until {self.endpoint} is in service"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEndpoint(ActionBase):
    phase = Phase.PROBE
    verb = "send a probe to"
    endpoint: str
    probe: ProbeSpec
    asynchronous: bool = field(default=False, metadata=ADDED)
    """Through S3: an asynchronous endpoint takes no other request."""
    shared: str = field(default="", metadata=ADDED)
    """The endpoint of which it is an inference component."""
    candidate: ProbeSpec | None = field(default=None, metadata=ADDED)
    """The same of its candidate, if that answers requests."""
    shadow: bool = field(default=False, metadata=ADDED)
    """Whether it has a shadow variant: no request can name that one, so its instances are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagEndpoint(ActionBase):
    """Tags that differ from the live ones: the user's, and the spec's digest."""

    phase = Phase.CONFIGURE
    verb = "tag"
    endpoint: str
    tags: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class UntagEndpoint(ActionBase):
    """Tags that lmi set, and that the recipe no longer has."""

    phase = Phase.CONFIGURE
    endpoint: str
    names: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"remove the tag{'s' * (len(self.names) > 1)} {', '.join(self.names)} from {self.endpoint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetExpiry(ActionBase):
    """From when on `lmi gc` may delete the endpoint, counted from when this is done."""

    phase = Phase.CONFIGURE
    endpoint: str
    ttl: int
    """Seconds; 0: never."""

    @property
    def title(self) -> str:
        if not self.ttl:
            return f"remove the expiry of {self.endpoint}"
        return f"set the expiry of {self.endpoint} to {duration_text(self.ttl)} from now"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDeletion(ActionBase):
    """Create the schedule that deletes the endpoint, or move it. Free, and before the endpoint that costs money."""

    phase = Phase.CONFIGURE
    endpoint: str
    role: str
    """ARN of the role that EventBridge Scheduler assumes."""
    ttl: int
    """Seconds from now; 0: at the expiry that the endpoint has."""

    @property
    def title(self) -> str:
        when = f"{duration_text(self.ttl)} from now" if self.ttl else "at its expiry"
        return f"schedule the deletion of {self.endpoint} {when}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSchedule(ActionBase):
    phase = Phase.CONFIGURE
    verb = "remove the schedule that deletes"
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDashboard(ActionBase):
    """Before the endpoint, whose tag says that there is one."""

    phase = Phase.CONFIGURE
    verb = "remove the CloudWatch dashboard of"
    can_wait = True
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEndpoint(ActionBase):
    """Delete it and wait until it is gone: from then on it costs nothing."""

    phase = Phase.STOP
    binding = True
    endpoint: str

    @property
    def title(self) -> str:
        return f"delete the endpoint {self.endpoint}, and wait until it is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEndpointConfig(ActionBase):
    phase = Phase.CLEANUP
    verb = "delete the endpoint config"
    config: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModel(ActionBase):
    phase = Phase.CLEANUP
    verb = "delete the model"
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLogs(ActionBase):
    phase = Phase.CLEANUP
    verb = "delete the log group"
    binding = True
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWeights(ActionBase):
    """Only with `down --purge`, and only if no other deployment uses them."""

    phase = Phase.CLEANUP
    verb = "delete the weights"
    binding = True
    weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAsyncRequests(ActionBase):
    """What is in the deployment's bucket of asynchronous requests: inputs and responses."""

    phase = Phase.CLEANUP
    verb = "delete the asynchronous requests and responses of"
    binding = True
    endpoint: str


CloudAction = (
    MakeBucket
    | PushWeights
    | JobAction
    | MakeRepository
    | PushImage
    | CreateModel
    | CreateEndpointConfig
    | CreateEndpoint
    | UpdateEndpoint
    | AwaitService
    | ProbeEndpoint
    | ScalingAction
    | AlarmAction
    | AdoptResource
    | RemoveForeignScaling
    | TagEndpoint
    | UntagEndpoint
    | SetExpiry
    | ScheduleDeletion
    | RemoveSchedule
    | RemoveDashboard
    | DeleteEndpoint
    | DeleteEndpointConfig
    | DeleteModel
    | DeleteLogs
    | DeleteImage
    | DeleteRepository
    | DeleteWeights
    | DeleteAsyncRequests
    | ComponentAction
)
