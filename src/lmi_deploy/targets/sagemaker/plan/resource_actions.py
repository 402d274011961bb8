"""Models, configs and artifacts of a deployment: which exist, which are created again, which have had their day."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.local_actions import RemoveArtifact
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import KEPT_GENERATIONS, Generation
from lmi_deploy.domain.sagemaker.actions import (
    CreateEndpointConfig,
    CreateModel,
    DeleteEndpointConfig,
    DeleteModel,
)
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, ObservedEndpoint, ResourceKind
from lmi_deploy.domain.sagemaker.s3_layout import stored_artifacts
from lmi_deploy.errors import Refused
from lmi_deploy.targets.sagemaker.desired_state import DesiredEndpointConfig, DesiredModel, DesiredState
from lmi_deploy.targets.sagemaker.plan.adapter_components import adapter_artifacts


def resource_names(observed: CloudObserved, kind: ResourceKind) -> set[str]:
    """Names of the observed resources that are ours."""
    return {resource.name for resource in observed.resources if resource.kind == kind}


def create_settings(
    desired: DesiredState, chosen: DesiredEndpointConfig, observed: CloudObserved
) -> Iterator[Action]:
    """The models and the config that an endpoint is created or updated with."""
    for model in desired.models:
        if model.name not in existing(observed, "model"):
            yield _create_model(model, desired)
    if chosen.name not in existing(observed, "endpoint-config"):
        yield CreateEndpointConfig(config=chosen.name, settings=chosen.settings)


def _create_model(model: DesiredModel, desired: DesiredState) -> CreateModel:
    return CreateModel(model=model.name, settings=model.settings, variant=desired.variant_of(model))


def restore(desired: DesiredState, live: DesiredEndpointConfig, observed: CloudObserved) -> Iterator[Action]:
    """Resources deleted under an endpoint that still serves: the next update or the next instance needs them."""
    for model in desired.models:
        if ("model", model.name) in observed.missing:
            yield _create_model(model, desired)
    if ("endpoint-config", live.name) in observed.missing:
        yield CreateEndpointConfig(config=live.name, settings=live.settings)


def existing(observed: CloudObserved, kind: ResourceKind) -> set[str]:
    """Names that the tag search found, without those that were looked up and do not exist."""
    return resource_names(observed, kind) - {name for each, name in observed.missing if each == kind}


def require_readable_record(observed: CloudObserved) -> None:
    """Refused where only a damaged record says which earlier versions there are: a new one would have them deleted."""
    if observed.record_damaged:
        place = observed.record_damaged.split()[0]
        raise Refused(
            f"{observed.ref.name}: its record {observed.record_damaged}",
            hint="nothing was changed; the endpoint is not affected. Restore an earlier version of the object; or move "
            f"it away (aws s3 mv {place} {place}.old) and run the same command again, which gives up the way back to "
            f"earlier versions; or delete the deployment: {observed.ref.command('down')}",
        )


def is_endpoint_config_lost(
    endpoint: ObservedEndpoint, desired: DesiredState, observed: CloudObserved
) -> bool:
    """Whether the config that created the endpoint is deleted, and cannot be created again from this recipe.

    Such an endpoint still serves; SageMaker refuses to update it (`Could not find endpoint configuration`,
    hashicorp/terraform-provider-aws#40048).
    """
    if endpoint.status in SETTLING or desired.endpoint_config(endpoint.config) is not None:
        return False
    return ("endpoint-config", endpoint.config) in observed.missing


def clear(
    spec: Spec, artifact: Artifact, desired: DesiredState, observed: CloudObserved
) -> Iterator[DeleteEndpointConfig | DeleteModel | RemoveArtifact]:
    """What the last generations no longer need. These generations are kept because they cost nothing, and `rollback`
    uses them.
    """
    kept = _kept_generations(desired, observed)
    configs = {config.name for config in desired.configs} | {generation.server for generation in kept}
    models = {model.name for model in desired.models} | {name for one in kept for name in one.serving.models}
    stored = {*stored_artifacts(spec, artifact)} | {name for one in kept for name in one.artifacts}
    places = (desired.component, *(generation.serving.cloud.component for generation in kept))
    stored |= {each for place in places for each in adapter_artifacts(place)}
    for name in sorted(existing(observed, "endpoint-config") - configs):
        yield DeleteEndpointConfig(config=name)
    for name in sorted(existing(observed, "model") - models):
        yield DeleteModel(model=name)
    yield from remove_artifacts({*observed.artifacts, *observed.incomplete_artifacts} - stored, observed)


def remove_artifacts(stored: set[str], observed: CloudObserved) -> Iterator[RemoveArtifact]:
    digests = observed.record.artifact_digests if observed.record else {}
    return (RemoveArtifact(artifact=name, digest=digests.get(name, "")) for name in sorted(stored))


def kept_images(desired: DesiredState, observed: CloudObserved) -> set[str]:
    """The images of these generations, and of the desired one."""
    kept = (
        image for generation in _kept_generations(desired, observed) for image in generation.serving.images
    )
    return {*kept, *(model.settings.image for model in desired.models)}


def _kept_generations(desired: DesiredState, observed: CloudObserved) -> tuple[Generation, ...]:
    """The generations that the record will still contain once the desired one is its last."""
    known = observed.record.generations if observed.record else ()
    others = [generation for generation in known if desired.endpoint_config(generation.server) is None]
    return tuple(others[1 - KEPT_GENERATIONS :])
