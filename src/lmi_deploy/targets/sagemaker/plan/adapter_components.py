"""The plan of the LoRA adapters of a model on a shared endpoint: each is created, updated and deleted alone."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.adapter_actions import (
    CreateAdapterComponent,
    DeleteAdapterComponent,
    PackAdapter,
    UpdateAdapterComponent,
)
from lmi_deploy.domain.sagemaker.component_settings import UNREPAIRABLE, ComponentSettings
from lmi_deploy.domain.sagemaker.resource_names import adapter_component_name
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, TAG, TAG_ADAPTER, TAG_BUCKET
from lmi_deploy.domain.sagemaker.s3_layout import adapter_artifact_id, adapter_artifact_of


def pack_adapters(spec: Spec, observed: CloudObserved) -> Iterator[PackAdapter]:
    """Those whose tar.gz the bucket lacks; two adapters with the same files have one."""
    if not spec.has_adapter_components:
        return
    packed = {*observed.artifacts}
    for adapter in spec.weights.adapters:
        artifact = adapter_artifact_id(adapter)
        if artifact not in packed:
            packed.add(artifact)
            yield PackAdapter(artifact=artifact, adapter=adapter.name, weights=adapter.weights_name)


def remove_adapters(desired: ComponentSettings | None, observed: CloudObserved) -> Iterator[Action]:
    """Those that the model no longer has, and those that are created again; all of them without `desired`."""
    wanted = {each.component for each in desired.adapters} if desired else set()
    for adapter in observed.adapters:
        if adapter.name not in wanted or adapter.status in UNREPAIRABLE:
            yield DeleteAdapterComponent(component=adapter.name)


def serve_adapters(
    desired: ComponentSettings, tags: dict[str, Pairs], observed: CloudObserved, *, recreated: bool = False
) -> Iterator[Action]:
    """Those that do not serve as desired; with `recreated` all of them, because their model is created again.

    `tags`: by component.
    """
    base = observed.ref.name
    existing = {} if recreated else {each.name: each for each in observed.adapters}
    for wanted in desired.adapters:
        found = existing.get(wanted.component)
        if found is None or found.status in UNREPAIRABLE:
            yield CreateAdapterComponent(
                component=wanted.component,
                base=base,
                endpoint=desired.place.endpoint,
                artifact=wanted.artifact,
                tags=tags.get(wanted.component, ()),
            )
        elif found.artifact != wanted.artifact or found.status in SETTLING:
            yield UpdateAdapterComponent(component=wanted.component, base=base, artifact=wanted.artifact)


def adapter_tags(spec: Spec) -> dict[str, Pairs]:
    names = tuple(adapter.name for adapter in spec.weights.adapters)
    return _tags(spec.name, names, spec.cloud.bucket, spec.cloud.tags)


def recorded_adapter_tags(generation: Generation, observed: CloudObserved) -> dict[str, Pairs]:
    """The same, of a generation in the record."""
    serving = generation.serving
    return _tags(observed.ref.name, serving.adapters, observed.ref.bucket, serving.tags)


def _tags(deployment: str, adapters: tuple[str, ...], bucket: str, given: Pairs) -> dict[str, Pairs]:
    return {
        adapter_component_name(deployment, adapter): tuple(
            sorted({**dict(given), TAG: deployment, TAG_BUCKET: bucket, TAG_ADAPTER: adapter}.items())
        )
        for adapter in adapters
    }


def adapter_artifacts(settings: ComponentSettings | None) -> frozenset[str]:
    """The stored artifacts that the adapters of a generation load."""
    adapters = settings.adapters if settings else ()
    return frozenset(adapter_artifact_of(each.artifact) for each in adapters)


def adapter_drift_words(observed: CloudObserved) -> str:
    """What another tool changed of the adapters since the last `lmi up`; empty if nothing, or if an `up` is pending."""
    record, component = observed.record, observed.component
    if record is None or record.current is None or record.coming is not None or component is None:
        return ""
    recorded = record.current.serving.cloud.component
    if recorded is None or recorded.alone != component.settings.alone:
        return ""
    known = {each.name: each for each in observed.adapters}
    words = [
        f"{each.component} {_difference(known[each.component].status, known[each.component].reason)}"
        if each.component in known
        else f"{each.component} was deleted"
        for each in recorded.adapters
        if each not in component.settings.adapters
    ]
    wanted = {each.component for each in recorded.adapters}
    words += [f"{name} was added" for name in known if name not in wanted]
    if not words:
        return ""
    return f"its adapters are not those that `lmi up` deployed: {'; '.join(words)}; `lmi up` restores them"


def _difference(status: str, reason: str) -> str:
    if status == "InService":
        return "has another artifact"
    return f"is {status}" + (f" ({reason})" if reason else "")
