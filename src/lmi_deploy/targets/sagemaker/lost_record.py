"""The record of a deployment that lost it, from its endpoint configs and their models, which both have lmi's tags; who
changed it and when, from CloudTrail, where these credentials may read that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.environment_digests import value_digest
from lmi_deploy.domain.record import (
    KEPT_GENERATIONS,
    Author,
    ChangeKind,
    DeploymentRef,
    Generation,
    Record,
    ServingPeriod,
)
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
from lmi_deploy.domain.sagemaker.s3_layout import artifact_prefix
from lmi_deploy.domain.serving_record import AdditionalServing, ServingRecord
from lmi_deploy.domain.weights import model_of_weights
from lmi_deploy.errors import AccessError, CloudError
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.event_history import EndpointCall
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.targets.sagemaker.plan.adoption import described_place


def rebuilt_record(
    ref: DeploymentRef,
    endpoint: ObservedEndpoint | None,
    resources: tuple[Resource, ...],
    cloud: Cloud,
    store: ObjectStore,
) -> Record | None:
    """Three requests for each config. None for what does not serve, has a candidate or shares an endpoint: an `up` with
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
    generations = tuple(one.generation(ref, store) for one in kept)
    return Record(ref=ref, generations=generations, history=tuple(_history(ref, endpoint, cloud)))


def _history(ref: DeploymentRef, endpoint: ObservedEndpoint, cloud: Cloud) -> Iterator[ServingPeriod]:
    """Nothing where the log may not be read, has nothing of the endpoint, or does not have its last change yet. An
    update that SageMaker rolled back is in it, as if it had served until the next one.
    """
    try:
        calls = cloud.events.calls(ref.name)
    except (AccessError, CloudError):
        return
    server = next((call.config for call in reversed(calls) if call.config), "")
    if server != endpoint.config:
        return
    period = ServingPeriod(since="", server="")
    for call in calls:
        period = replace(
            period,
            since=call.at,
            server=call.config or period.server,
            types=call.types if call.config else period.types,
            count=call.count or period.count,
            change=_change(call),
            by=Author(arn=call.by),
        )
        if period.server:
            yield period


def _change(call: EndpointCall) -> ChangeKind:
    if not call.is_ours:
        return "other"
    return "up" if call.config else "scale"


@dataclass(frozen=True, slots=True)
class _Described:
    tagged: Resource
    config: ObservedEndpointConfig
    model: ObservedModel

    def generation(self, ref: DeploymentRef, store: ObjectStore) -> Generation:
        settings, artifact = self.config.settings, self.model.settings.artifact.rstrip("/").rpartition("/")[2]
        properties = None
        with suppress(AccessError, CloudError):  # who may not read it can still delete the deployment
            properties = store.get(f"{artifact_prefix(ref.name, artifact)}{SERVING_PROPERTIES}")
        return Generation(
            server=self.config.name,
            spec=self.tagged.tag(TAG_SPEC),
            artifact=artifact,
            runtime="sagemaker",
            host=ref.region,
            port=0,
            serving=self._serving(ref, downloads=properties is not None and b"s3://" in properties[0]),
            since=self.config.created,
            instance=settings.instance,
        )

    def _serving(self, ref: DeploymentRef, *, downloads: bool) -> ServingRecord:
        """`downloads`: whether the container reads its weights from S3 itself."""
        weights, draft = self.tagged.tag(TAG_WEIGHTS), self.tagged.tag(TAG_DRAFT)
        place = described_place(ref.region, self.model.name, self.config.settings, self.model.settings)
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
            place=replace(place, delivery="s3") if downloads else place,
            probe=None,
            environment=tuple((name, value_digest(value)) for name, value in self.model.settings.environment),
            properties=(),
            additional=drafts if draft else (),
        )
