"""The SageMaker resources that a spec requires: their settings, and the names derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from lmi_deploy.domain.deployment_artifact import Artifact, filled_pairs
from lmi_deploy.domain.deployment_spec import CandidateSpec, Spec
from lmi_deploy.domain.observed_state import CloudInventory
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.sagemaker.component_settings import AdapterSettings, ComponentSettings
from lmi_deploy.domain.sagemaker.resource_names import adapter_component_name, resource_name
from lmi_deploy.domain.sagemaker.resource_settings import (
    CandidateVariant,
    EndpointConfigSettings,
    ModelSettings,
    Placement,
    variants,
)
from lmi_deploy.domain.sagemaker.s3_layout import (
    adapter_address,
    artifact_address,
    mounts,
    weights_placeholder_value,
)

PROVISION = 1800
"""Seconds for AWS to provide the instance and pull the image, in addition to the recipe's limit for the container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredEndpointConfig:
    name: str
    placement: Placement
    settings: EndpointConfigSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredModel:
    name: str
    settings: ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """The models, and an endpoint config for each placement; the endpoint is in sync with any of them."""

    model: str
    settings: ModelSettings
    configs: tuple[DesiredEndpointConfig, ...]
    """Of a model on a shared endpoint one: its name is that of the component's settings, and its settings are those of
    the endpoint, if that is still to be created.
    """
    component: ComponentSettings | None = None
    candidate: DesiredModel | None = None

    @property
    def models(self) -> tuple[DesiredModel, ...]:
        """Of all variants."""
        main = DesiredModel(name=self.model, settings=self.settings)
        if self.candidate is None or self.candidate == main:
            return (main,)
        return (main, self.candidate)

    def variant_of(self, model: DesiredModel) -> str:
        """In words; empty without a candidate."""
        if self.candidate is None:
            return ""
        return variants(main=model.name == self.model, candidate=model == self.candidate)

    def endpoint_config(self, name: str) -> DesiredEndpointConfig | None:
        return next((config for config in self.configs if config.name == name), None)

    def chosen(self, inventory: CloudInventory) -> DesiredEndpointConfig:
        placement = inventory.choose([config.placement for config in self.configs])
        return next(config for config in self.configs if config.placement == placement)


def desired_state(spec: Spec, artifact: Artifact) -> DesiredState:
    place, main = spec.cloud, _model(spec, artifact)
    if place.component is not None:
        return _with_component(spec, main.settings, main.name)
    second = spec.candidate
    model = _model(second.spec, second.artifact) if second else None
    variant = _candidate(second, model) if second and model else None
    configs = tuple(_endpoint_config(spec, main.name, one, variant) for one in place.placements)
    return DesiredState(model=main.name, settings=main.settings, configs=configs, candidate=model)


def _model(spec: Spec, artifact: Artifact) -> DesiredModel:
    place = spec.cloud
    settings = ModelSettings(
        role=place.role,
        image=place.image,
        environment=filled_pairs(place.environment, weights_placeholder_value(spec)),
        artifact=artifact_address(spec, artifact),
        mounts=mounts(spec),
        network_isolation=place.network_isolation,
        # Of inference components the endpoint joins the network.
        vpc=None if place.component else place.vpc,
    )
    return DesiredModel(name=resource_name(spec.name, settings), settings=settings)


def _candidate(second: CandidateSpec, model: DesiredModel) -> CandidateVariant:
    """Without the share of a production variant, which changes without another config."""
    place = second.spec.cloud
    (placement,) = place.placements
    return CandidateVariant(
        model=model.name,
        instance=placement.instance,
        count=place.count,
        model_download=place.model_download,
        startup=place.startup_timeout,
        volume_gb=placement.volume_gb,
        host_ami=placement.host_ami,
        shadow_percent=second.percent if second.shadow else 0,
    )


def _with_component(spec: Spec, settings: ModelSettings, model: str) -> DesiredState:
    place = spec.cloud
    assert place.component is not None
    component = ComponentSettings(
        model=model,
        place=place.component,
        model_download=place.model_download,
        startup=place.startup_timeout,
        adapters=_adapters(spec),
    )
    (placement,) = place.placements
    endpoint = EndpointConfigSettings(
        model="",
        instance=placement.instance,
        count=place.count,
        model_download=0,
        startup=0,
        volume_gb=placement.volume_gb,
        host_ami=placement.host_ami,
        kms_key=place.kms_key,
        role=place.role,
        vpc=place.vpc,
        instance_scaling=place.instance_scaling,
    )
    config = DesiredEndpointConfig(name=component.name(spec.name), placement=placement, settings=endpoint)
    return DesiredState(model=model, settings=settings, configs=(config,), component=component)


def _adapters(spec: Spec) -> tuple[AdapterSettings, ...]:
    settings = (
        AdapterSettings(
            component=adapter_component_name(spec.name, adapter.name), artifact=adapter_address(spec, adapter)
        )
        for adapter in spec.weights.adapters
    )
    return tuple(sorted(settings, key=lambda one: one.component))


def _endpoint_config(
    spec: Spec, model: str, placement: Placement, candidate: CandidateVariant | None
) -> DesiredEndpointConfig:
    place = spec.cloud
    settings = EndpointConfigSettings(
        model=model,
        instance=placement.instance,
        count=place.count,
        model_download=place.model_download,
        startup=place.startup_timeout,
        volume_gb=placement.volume_gb,
        host_ami=placement.host_ami,
        kms_key=place.kms_key,
        data_capture=place.data_capture,
        asynchronous=place.asynchronous,
        candidate=candidate,
        instance_pools=placement.instance_pools,
    )
    return DesiredEndpointConfig(
        name=resource_name(spec.name, settings), placement=placement, settings=settings
    )


def wait_timeout(spec: Spec, update: UpdatePolicy | None = None) -> int:
    """Seconds until an endpoint that is not in service yet is overdue; with the steps and waits of an update."""
    places = [spec.cloud, *([spec.candidate.spec.cloud] if spec.candidate else [])]
    start = max(place.model_download + place.startup_timeout for place in places) + PROVISION
    if pools := spec.cloud.placements[0].instance_pools:
        start += pools.provision_timeout
    return start if update is None else int(update_seconds(update, start))


def update_seconds(update: UpdatePolicy, start: float) -> float:
    """From the start of the new instances to the end of the old ones, if a start takes so long."""
    steps = 2 if update.policy == "canary" else ceil(100 / (update.step_percent or 100))
    starts = steps if update.policy == "rolling" else 1
    return start * starts + update.wait * steps + update.keep_old
