"""The actions of a deployment on SageMaker: each concrete, the first field names its object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.sagemaker.expiry import duration_text
from lmi_deploy.domain.sagemaker.settings import EndpointConfigSettings, ModelSettings, Scaling
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings
from lmi_deploy.domain.spec import ProbeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeBucket:
    """The account's default bucket: private, encrypted, tagged. Before the lock, which is stored in it."""

    bucket: str
    region: str
    kms_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushWeights:
    """The chosen files into the bucket from here, streamed or through the Hub's cache."""

    weights: str
    model_id: str
    commit: str
    via: str
    size: int
    """Bytes of all files; those already in the bucket are not transferred again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTransferJob:
    """The same by a processing job near the bucket. Its input in the bucket is added when it starts."""

    job: str
    weights: str
    model_id: str
    commit: str
    size: int
    settings: JobSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateModel:
    model: str
    settings: ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEndpointConfig:
    config: str
    settings: EndpointConfigSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEndpoint:
    """From here on it costs money."""

    endpoint: str
    config: str
    tags: Pairs = ()
    """The user's own; ours are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateEndpoint:
    endpoint: str
    config: str
    keep_count: bool
    """Whether the number of instances that autoscaling arrived at stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitService:
    """InService with exactly this config; a roll-back to another one is a failure."""

    endpoint: str
    config: str
    timeout: int
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEndpoint:
    endpoint: str
    probe: ProbeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScaling:
    endpoint: str
    scaling: Scaling


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveScaling:
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagEndpoint:
    """Tags that differ from the live ones: the user's, and the spec's digest."""

    endpoint: str
    tags: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class UntagEndpoint:
    """Tags that lmi set, and that the recipe no longer has."""

    endpoint: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetExpiry:
    """From when on `lmi gc` may delete the endpoint, counted from when this is done."""

    endpoint: str
    ttl: int
    """Seconds; 0: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEndpoint:
    """Delete it and wait until it is gone: from then on it costs nothing."""

    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEndpointConfig:
    config: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModel:
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTransferJob:
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLogs:
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWeights:
    """Only with `down --purge`, and only if no other deployment uses them."""

    weights: str


CloudAction = (
    MakeBucket
    | PushWeights
    | RunTransferJob
    | CreateModel
    | CreateEndpointConfig
    | CreateEndpoint
    | UpdateEndpoint
    | AwaitService
    | ProbeEndpoint
    | SetScaling
    | RemoveScaling
    | TagEndpoint
    | UntagEndpoint
    | SetExpiry
    | DeleteEndpoint
    | DeleteEndpointConfig
    | DeleteModel
    | StopTransferJob
    | DeleteLogs
    | DeleteWeights
)


def cloud_title(action: CloudAction) -> str:  # noqa: C901 (one line an action, matched to the end)
    """An action in a few words, for people."""
    match action:
        case MakeBucket(bucket=bucket):
            return f"make the bucket {bucket}"
        case PushWeights(model_id=model, commit=commit):
            return f"push {model} at {commit[:8]} to the bucket"
        case RunTransferJob(model_id=model, settings=settings):
            return f"move {model} to the bucket by a job on {settings.count} x {settings.instance}"
        case CreateModel(model=model):
            return f"create the model {model}"
        case CreateEndpointConfig(config=config, settings=settings):
            return f"create the endpoint config {config} ({settings.count} x {settings.instance})"
        case CreateEndpoint(endpoint=endpoint):
            return f"create the endpoint {endpoint}"
        case UpdateEndpoint(endpoint=endpoint, config=config):
            return f"update the endpoint {endpoint} to {config}"
        case AwaitService(endpoint=endpoint):
            return f"wait until {endpoint} is in service"
        case ProbeEndpoint(endpoint=endpoint):
            return f"ask {endpoint} for one real answer"
        case SetScaling(endpoint=endpoint, scaling=scaling):
            return f"scale {endpoint} from {scaling.least} to {scaling.most} instances"
        case RemoveScaling(endpoint=endpoint):
            return f"stop scaling {endpoint}"
        case TagEndpoint(endpoint=endpoint):
            return f"tag {endpoint}"
        case UntagEndpoint(endpoint=endpoint, names=names):
            return f"take the tag{'s' * (len(names) > 1)} {', '.join(names)} off {endpoint}"
        case SetExpiry(endpoint=endpoint, ttl=0):
            return f"remove the expiry of {endpoint}"
        case SetExpiry(endpoint=endpoint, ttl=ttl):
            return f"let {endpoint} live for {duration_text(ttl)} from now"
        case DeleteEndpoint(endpoint=endpoint):
            return f"delete the endpoint {endpoint}, and see it gone"
        case DeleteEndpointConfig(config=config):
            return f"delete the endpoint config {config}"
        case DeleteModel(model=model):
            return f"delete the model {model}"
        case StopTransferJob(job=job):
            return f"stop the job {job}"
        case DeleteLogs(group=group):
            return f"delete the log group {group}"
        case DeleteWeights(weights=weights):
            return f"delete the weights {weights}"
        case _:
            assert_never(action)
