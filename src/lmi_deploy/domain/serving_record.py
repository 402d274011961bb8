"""What a generation serves, as far as later commands need it: they work without the recipe and without the Hub."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.recipe_endpoint_keys import DataCapture, Vpc
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.alarm_settings import EndpointAlarms
from lmi_deploy.domain.sagemaker.component_settings import ComponentSettings
from lmi_deploy.domain.sagemaker.resource_settings import Placement
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling
from lmi_deploy.domain.settings_digest import ADDED


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServing:
    environment: str
    """The name of the worker's environment."""
    runtime: str
    image: str
    """The image for runtime `container`; empty for the others."""
    address: str
    wait_timeout: int
    """Seconds for the server to load the model; 0: unknown."""

    @property
    def summary(self) -> dict[str, str]:
        return {
            "environment": self.environment,
            "runtime": self.runtime,
            "image": self.image,
            "address": self.address,
            "container_startup": _number(self.wait_timeout),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerServing:
    model: str
    """The name of the SageMaker model."""
    region: str
    image: str
    placements: tuple[Placement, ...]
    """Those of the recipe; the generation names the instance type that it runs on."""
    count: int
    delivery: str
    role: str
    model_download: int
    container_startup: int
    wait_timeout: int
    """Seconds until the endpoint is overdue; 0: unknown."""
    kms_key: str
    network_isolation: bool
    vpc: Vpc | None
    scaling: Scaling | None
    scheduler_role: str = field(default="", metadata=ADDED)
    """ARN of the role with which EventBridge Scheduler deletes the endpoint at its expiry."""
    async_output: str = field(default="", metadata=ADDED)
    """S3 location of the responses of an asynchronous endpoint; empty: it answers directly."""
    data_capture: DataCapture | None = field(default=None, metadata=ADDED)
    variant: str = field(default="", metadata=ADDED)
    """The name of its production variant, of a generation that `lmi adopt` recorded; empty: lmi's own."""
    variant_scaling: str = field(default="", metadata=ADDED)
    """How another tool scales that variant, in words."""
    component: ComponentSettings | None = field(default=None, metadata=ADDED)
    """Of a model on a shared endpoint."""
    alarms: EndpointAlarms | None = field(default=None, metadata=ADDED)
    """Of the endpoint: a rollback leaves them as they are."""

    @property
    def scalable_kind(self) -> ScalableKind:
        """What `scaling` scales."""
        return "component" if self.component else "variant"

    @property
    def summary(self) -> dict[str, str]:
        places = self.placements
        return {
            "sagemaker_model": self.model,
            "runtime": "sagemaker",
            "region": self.region,
            "image": self.image,
            "instance_type": ", ".join(name for place in places for name in place.types),
            "instance_pools": next((one.instance_pools.words for one in places if one.instance_pools), ""),
            "count": str(self.count),
            "delivery": self.delivery,
            "role": self.role,
            "model_download": _number(self.model_download),
            "container_startup": _number(self.container_startup),
            "volume": ", ".join(f"{p.instance} {p.volume_gb} GB" for p in places if p.volume_gb),
            "host_ami": ", ".join(f"{p.instance} {p.host_ami}" for p in places if p.host_ami),
            "kms_key": self.kms_key,
            "network_isolation": "true" if self.network_isolation else "",
            "subnets": ", ".join(self.vpc.subnets) if self.vpc else "",
            "security_groups": ", ".join(self.vpc.security_groups) if self.vpc else "",
            **(self.scaling.summary_of(self.scalable_kind) if self.scaling else {}),
            **(self.alarms.summary if self.alarms else {}),
            "scheduler_role": self.scheduler_role,
            "async_output": self.async_output,
            "data_capture": self.data_capture.words if self.data_capture else "",
            "patience": _number(self.wait_timeout),
            **_shared(self.component),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionalServing:
    """A LoRA adapter, or the draft model (`role` draft), that is served with the model."""

    role: str
    name: str
    """Of an adapter: its name in requests."""
    model: str
    commit: str
    weights_name: str = ""
    """SageMaker: the name of its weights in the bucket."""

    @property
    def key(self) -> str:
        """Its field in a summary."""
        return f"adapter.{self.name}" if self.role == "adapter" else "draft_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRecord:
    model: str
    commit: str
    engine: str
    """Text, as are task and handler: the lmi that reads it may know others than the one that wrote it."""
    task: str
    handler: str
    template: str
    """The name of lmi's own handler; empty for other code."""
    tensor_parallel_degree: int
    weights: str
    """The digest of the selected files."""
    weights_name: str = ""
    """SageMaker: the name of the weights in the bucket."""
    artifact: str
    """The start of the artifact's digest, whatever the weights."""
    place: LocalServing | SageMakerServing
    probe: ProbeSpec | None
    """None if it was recorded by an lmi that sent none."""
    environment: Pairs
    """The variables of the container, each by the digest of its value."""
    tags: Pairs = ()
    """SageMaker: the user's own."""
    properties: Pairs
    """Those of serving.properties that no other field has."""
    additional: tuple[AdditionalServing, ...] = field(default=(), metadata=ADDED)
    in_place: InPlaceWeights | None = field(default=None, metadata=ADDED)
    """SageMaker: the objects that it reads where their owner keeps them; then `weights_name` is empty."""
    candidate: CandidateServing | None = field(default=None, metadata=ADDED)
    """SageMaker: the second version on the same endpoint."""

    @property
    def stored_weights(self) -> tuple[str, ...]:
        """SageMaker: the names in the bucket of the weights and of the additional models."""
        names = (self.weights_name, *(each.weights_name for each in self.additional))
        also = self.candidate.serving.stored_weights if self.candidate else ()
        return tuple(dict.fromkeys(name for name in (*names, *also) if name))

    @property
    def loaded_weights(self) -> tuple[str, ...]:
        """SageMaker: those of them that an instance reads when it starts; of adapters the artifact has copies."""
        draft = (each.weights_name for each in self.additional if each.role == "draft")
        also = self.candidate.serving.loaded_weights if self.candidate else ()
        return tuple(dict.fromkeys(name for name in (self.weights_name, *draft, *also) if name))

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the SageMaker models of all its variants."""
        also = self.candidate.serving.models if self.candidate else ()
        return tuple(name for name in (self.cloud.model, *also) if name)

    @property
    def images(self) -> tuple[str, ...]:
        """SageMaker: the images of all its variants."""
        return (self.cloud.image, *(self.candidate.serving.images if self.candidate else ()))

    @property
    def adapters(self) -> tuple[str, ...]:
        """The names of the LoRA adapters."""
        return tuple(each.name for each in self.additional if each.role == "adapter")

    @property
    def has_adapter_components(self) -> bool:
        """SageMaker: whether each adapter is an inference component of its own."""
        component = self.place.component if isinstance(self.place, SageMakerServing) else None
        return component is not None and bool(component.adapters)

    @property
    def shared(self) -> str:
        """SageMaker: the endpoint that it shares; empty for one of its own."""
        component = self.place.component if isinstance(self.place, SageMakerServing) else None
        return component.place.endpoint if component else ""

    @property
    def is_asynchronous(self) -> bool:
        """SageMaker: whether its requests wait in a queue, and their responses are objects in S3."""
        return isinstance(self.place, SageMakerServing) and bool(self.place.async_output)

    @property
    def cloud(self) -> SageMakerServing:
        """Its place, if that is SageMaker: for the modules of target sagemaker."""
        assert isinstance(self.place, SageMakerServing)
        return self.place

    @property
    def summary(self) -> dict[str, str]:
        """All of it by name, in words: for people, for `--json`, and to compare two generations."""
        found = {
            "model": self.model,
            "commit": self.commit,
            "engine": self.engine,
            "task": self.task,
            "handler": self.handler,
            "template": self.template,
            "tensor_parallel_degree": _number(self.tensor_parallel_degree),
            "weights": self.weights,
        }
        optional = {
            "weights_name": self.weights_name,
            "weights_in_place": self.in_place.address if self.in_place else "",
            "artifact": self.artifact,
            **self.place.summary,
        }
        found |= {key: value for key, value in optional.items() if value}
        found |= {each.key: f"{each.model} at {each.commit[:8]}" for each in self.additional}
        if self.probe:
            found["probe"] = self.probe.body
            found["probe_prompt"] = self.probe.prompt
            found["probe_content_type"] = self.probe.content_type
            found["probe_expect"] = self.probe.expect
            found |= {"probe_adapters": ", ".join(self.probe.adapters)} if self.probe.adapters else {}
        found |= {f"environment.{name}": value for name, value in self.environment}
        found |= {f"tag.{key}": value for key, value in self.tags}
        found |= dict(self.properties)
        return found | (self.candidate.summary(self) if self.candidate else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateServing:
    """A second version on the endpoint of another: only on SageMaker."""

    serving: ServingRecord
    artifact: str
    """The stored artifact."""
    percent: int
    shadow: bool

    @property
    def instance(self) -> str:
        """It has one instance type."""
        return self.serving.cloud.placements[0].instance

    @property
    def words(self) -> str:
        return share_words(self.percent, shadow=self.shadow)

    def summary(self, main: ServingRecord) -> dict[str, str]:
        """What it is by name, in words, as far as it differs from the version that serves."""
        place = replace(main.cloud, scaling=None, alarms=None, scheduler_role="", data_capture=None)
        other, own = replace(main, candidate=None, place=place).summary, self.serving.summary
        differs = {key for key in {**other, **own} if other.get(key) != own.get(key)} - {"sagemaker_model"}
        return {"candidate": self.words} | {
            f"candidate.{key}": own.get(key) or "none" for key in sorted(differs)
        }


def share_words(percent: int, *, shadow: bool) -> str:
    """What a candidate gets of the requests."""
    return f"{'gets a copy of' if shadow else 'answers'} {percent} % of the requests"


def _shared(component: ComponentSettings | None) -> dict[str, str]:
    if component is None:
        return {}
    place = component.place
    return {"shared_endpoint": place.endpoint, "copies": str(place.copies), "each_copy": place.words}


def _number(value: int) -> str:
    return str(value or "")
