"""Inference components: models that share the instances of one endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from lmi_deploy.domain.sagemaker.resource_names import resource_name
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint, ObservedEndpointConfig
from lmi_deploy.domain.settings_digest import ADDED, digest_tag

_SERVE: Final = frozenset({"InService", "Updating"})
UNREPAIRABLE: Final = frozenset({"Failed", "Deleting"})
"""States of a component that no update can repair."""
COMPONENT_HEADER: Final = "X-Amzn-SageMaker-Inference-Component"
"""Names the model in a request to a shared endpoint: InferenceComponentName of InvokeEndpoint in botocore's model."""
NO_COPIES: Final = "has no capacity to process this request"
"""Of an inference component without a copy, in a ValidationError (400): "Inference Component has no capacity to process
this request. ApplicationAutoScaling may be in-progress (if configured) or try to increase the capacity by invoking
UpdateInferenceComponentRuntimeConfig API." (AWS's blog, "Unlock cost savings with the new scale down to zero feature in
SageMaker Inference", 2024-12-02; stdapi-ai/stdapi.ai's recorded responses; read in November 2026)
"""


@digest_tag("ComponentPlace")
@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlace:
    """What a copy of the model gets of one instance of the shared endpoint."""

    endpoint: str
    copies: int
    accelerators: int
    """0: the instance type has none."""
    memory_mb: int
    cpus: int
    """0: no cores are set aside."""

    @property
    def words(self) -> str:
        """Of one copy."""
        each = f"{self.accelerators} accelerators, " if self.accelerators > 1 else "1 accelerator, "
        cores = f", {self.cpus} CPU cores" if self.cpus else ""
        return f"{each if self.accelerators else ''}{self.memory_mb:,} MiB{cores}"


@digest_tag("AdapterSettings")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """A LoRA adapter as an inference component: it has no copies of its own, and runs in those of its base."""

    component: str
    """Its name."""
    artifact: str
    """The s3:// address of its tar.gz."""


@digest_tag("ComponentSettings")
@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSettings:
    """All of CreateInferenceComponent but name and tags."""

    model: str
    place: ComponentPlace
    model_download: int
    """Seconds."""
    startup: int
    """Seconds; the health check's time-out."""
    adapters: tuple[AdapterSettings, ...] = field(default=(), metadata=ADDED)
    """Sorted by name. They are components of their own: no request about the model names them."""

    @property
    def alone(self) -> ComponentSettings:
        """The model without its adapters."""
        return replace(self, adapters=())

    def name(self, deployment: str) -> str:
        """The name of a generation with these settings: SageMaker has no resource for them."""
        return resource_name(deployment, self)

    def with_copies(self, copies: int) -> ComponentSettings:
        return replace(self, place=replace(self.place, copies=copies))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedComponent:
    """As in DescribeInferenceComponent. `status`: Creating, InService, Updating, Failed, Deleting.

    During an update the settings may be the old or the new ones. Of an adapter, `settings` names only the endpoint.
    """

    name: str
    arn: str
    status: str
    settings: ComponentSettings
    """With the requested number of copies."""
    reason: str = ""
    copies: int = 0
    """That serve."""
    created: str = ""
    modified: str = ""
    base: str = ""
    """Of an adapter: the component of its model; empty for a model."""
    artifact: str = ""
    """Of an adapter."""
    requested: int | None = None
    """Copies, if `settings` has another number: that of a generation."""

    @property
    def adapter(self) -> AdapterSettings:
        return AdapterSettings(component=self.name, artifact=self.artifact)

    def with_adapters(self, adapters: tuple[ObservedComponent, ...]) -> ObservedComponent:
        """Those that serve belong to what it is."""
        serving = tuple(each.adapter for each in adapters if each.status in _SERVE)
        return replace(self, settings=replace(self.settings, adapters=serving))

    @property
    def requested_copies(self) -> int:
        return self.settings.place.copies if self.requested is None else self.requested

    def as_recorded(self, known: Iterable[ComponentSettings]) -> ObservedComponent:
        """Autoscaling, `lmi scale` and other tools change only the number of copies: then it is still the first known
        generation that differs in nothing else.
        """
        found, own = [each.alone for each in known], self.settings.alone
        if own in found:
            return self
        copies = own.place.copies
        same = next((each for each in found if each.with_copies(copies) == own), own)
        return replace(self, settings=self.settings.with_copies(same.place.copies), requested=copies)

    def as_endpoint(self) -> ObservedEndpoint:
        """What the rest of the deployment needs to know of it."""
        return ObservedEndpoint(
            name=self.name,
            arn=self.arn,
            status=self.status,
            config=self.settings.name(self.name),
            reason=self.reason,
            count=self.copies,
            desired_count=self.requested_copies,
            created=self.created,
            modified=self.modified,
            shared=self.settings.place.endpoint,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEndpoint:
    """An endpoint for inference components as it is now."""

    name: str
    endpoint: ObservedEndpoint | None
    config: ObservedEndpointConfig | None = None
    not_owned_reason: str = ""
    """Why lmi must leave it alone; empty if it is a shared endpoint of lmi, or does not exist."""
    components: tuple[ObservedComponent, ...] = ()
    """All of them, ours and others; adapters among them."""
    configs: tuple[str, ...] = ()
    """Names of the endpoint configs that carry its tag."""
    wanted: int | None = None
    """The most instances that the recipe of another model on it wants; None if it is unknown, or was not looked up."""

    @property
    def models(self) -> tuple[ObservedComponent, ...]:
        """Without the adapters, which take nothing of the endpoint."""
        return tuple(each for each in self.components if not each.base)

    def others(self, component: str) -> tuple[ObservedComponent, ...]:
        """The other models."""
        return tuple(each for each in self.models if each.name != component)
