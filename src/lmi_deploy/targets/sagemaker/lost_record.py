"""The record of a deployment that lost it, from its endpoint configs and their models: both have lmi's tags."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.environment_digests import value_digest
from lmi_deploy.domain.record import KEPT_GENERATIONS, DeploymentRef, Generation, Record
from lmi_deploy.domain.sagemaker.resource_settings import (
    SETTLING,
    TAG_DRAFT,
    TAG_ENGINE,
    TAG_SPEC,
    TAG_TASK,
    TAG_WEIGHTS,
    ObservedEndpoint,
    ObservedEndpointConfig,
    ObservedModel,
    Resource,
)
from lmi_deploy.domain.serving_record import AdditionalServing, ServingRecord
from lmi_deploy.domain.weights import model_of_weights
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.plan.adoption import described_place


def rebuilt_record(
    ref: DeploymentRef, endpoint: ObservedEndpoint | None, resources: tuple[Resource, ...], cloud: Cloud
) -> Record | None:
    """Two requests for each config. None for what does not serve, has a candidate or shares an endpoint: an `up` with
    its recipe writes that record.

    What no tag and no setting has (handler, probe, commit of adapters) stays empty, as of an adopted endpoint.
    """
    if endpoint is None or endpoint.status in SETTLING or endpoint.shared or endpoint.candidate:
        return None
    found = []
    for resource in resources:
        config = cloud.hosting.endpoint_config(resource.name) if resource.kind == "endpoint-config" else None
        plain = config and config.settings.model and not config.settings.candidate
        model = cloud.hosting.model(config.settings.model) if config and plain else None
        if config and model:
            found.append(_Described(resource, config, model))
    past = sorted(
        (one for one in found if one.config.name != endpoint.config), key=lambda one: one.config.created
    )
    serving = [one for one in found if one.config.name == endpoint.config]
    if not serving:
        return None
    kept = (*past[1 - KEPT_GENERATIONS :], *serving)
    return Record(ref=ref, generations=tuple(one.generation(ref) for one in kept))


@dataclass(frozen=True, slots=True)
class _Described:
    tagged: Resource
    config: ObservedEndpointConfig
    model: ObservedModel

    def generation(self, ref: DeploymentRef) -> Generation:
        settings = self.config.settings
        return Generation(
            server=self.config.name,
            spec=self.tagged.tag(TAG_SPEC),
            artifact=self.model.settings.artifact.rstrip("/").rpartition("/")[2],
            runtime="sagemaker",
            host=ref.region,
            port=0,
            serving=self._serving(ref),
            since=self.config.created,
            instance=settings.instance,
        )

    def _serving(self, ref: DeploymentRef) -> ServingRecord:
        weights, draft = self.tagged.tag(TAG_WEIGHTS), self.tagged.tag(TAG_DRAFT)
        drafts = (AdditionalServing(role="draft", name="", model="", commit="", weights_name=draft),)
        return ServingRecord(
            model=model_of_weights(weights),
            commit=weights.rpartition("/")[2].partition("-")[0],
            engine=self.tagged.tag(TAG_ENGINE),
            task=self.tagged.tag(TAG_TASK),
            handler="",
            template="",
            tensor_parallel_degree=0,
            weights="",
            weights_name=weights,
            artifact="",
            place=described_place(ref.region, self.model.name, self.config.settings, self.model.settings),
            probe=None,
            environment=tuple((name, value_digest(value)) for name, value in self.model.settings.environment),
            properties=(),
            additional=drafts if draft else (),
        )
