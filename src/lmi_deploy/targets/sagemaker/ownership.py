"""Who owns an endpoint whose tag `lmi:deployment` was removed or changed, and the parts of a live endpoint.

Every principal with AddTags or DeleteTags can change tags. But names of configs and models contain digests, and the
record lists what `lmi` created. If either says that the endpoint is the deployment's, its parts are not deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import Record
from lmi_deploy.domain.sagemaker.actions import CreateEndpointConfig, CreateModel
from lmi_deploy.domain.sagemaker.resource_names import is_resource_name
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG,
    ObservedEndpoint,
    ObservedEndpointConfig,
    Resource,
    ResourceKind,
)
from lmi_deploy.errors import AccessError
from lmi_deploy.ports.cloud import Cloud

_PREFIX = TAG.partition(":")[0] + ":"
_SETTLED = frozenset({"InService", "SystemUpdating", "UpdateRollbackFailed"})
"""Statuses in which an endpoint serves and could be updated. One that changes has its config by necessity."""
Names = set[tuple[ResourceKind, str]]


def ownership(
    endpoint: ObservedEndpoint | None, tags: Pairs, resources: tuple[Resource, ...], record: Record | None
) -> str:
    """Why an endpoint without our tag belongs to this deployment nevertheless; empty if nothing says so."""
    if endpoint is None:
        return ""
    configs = {endpoint.config, endpoint.pending} - {""}
    recorded = {name for kind, name in recorded_names(record) if kind == "endpoint-config"}
    recorded |= {generation.server for generation in record.known} if record else set()
    tagged = {resource.name for resource in resources if resource.kind == "endpoint-config"}
    others = sorted(key for key, _ in tags if key.startswith(_PREFIX) and key != TAG)
    if known := configs & recorded:
        return f"the record says that lmi made its config {min(known)}"
    if known := configs & tagged:
        return f"its config {min(known)} has the tag {TAG}"
    return f"it has other tags of lmi: {', '.join(others)}" if others else ""


def shared_model(endpoint: ObservedEndpoint, resources: tuple[Resource, ...], cloud: Cloud) -> str:
    """The same by the models of its configs, which are described; empty if none of them is ours."""
    own = {resource.name for resource in resources if resource.kind == "model"}
    if not own:
        return ""
    for name in sorted({endpoint.config, endpoint.pending} - {""}):
        config = cloud.hosting.endpoint_config(name)
        if config is not None and (known := own & {*config.models}):
            return f"its model {min(known)} has the tag {TAG}"
    return ""


def parts_of(
    endpoint: ObservedEndpoint | None, deployment: str, record: Record | None, cloud: Cloud
) -> tuple[ObservedEndpointConfig | None, Names]:
    """The config of an endpoint that serves and is not changing, and which of config and models are deleted.

    SageMaker deletes both under a live endpoint, which still serves (DeleteEndpointConfig, API reference: "you must
    not"; nothing refuses it). Models without a name of this deployment are not looked up.
    """
    if endpoint is None or endpoint.status not in _SETTLED:
        return None, set()
    if endpoint.shared:
        # Its model is asked for under the name that the record has: a component has no config.
        models = tuple(_recorded_models(endpoint.config, record))
        return None, {("model", model) for model in models if cloud.hosting.model(model) is None}
    try:
        config = cloud.hosting.endpoint_config(endpoint.config)
    except AccessError:
        if is_resource_name("endpoint-config", endpoint.config, deployment):
            raise
        return None, set()  # another tool's config, which a policy of an earlier lmi does not cover
    models = config.models if config else tuple(_recorded_models(endpoint.config, record))
    own = (model for model in models if model.startswith(f"{deployment}-"))
    missing: Names = {("model", model) for model in own if cloud.hosting.model(model) is None}
    return config, missing if config else {*missing, ("endpoint-config", endpoint.config)}


def recorded_names(record: Record | None) -> Names:
    """Models and configs that the record names, however they ended."""
    if record is None:
        return set()
    configs: Names = {
        ("endpoint-config", generation.server)
        for generation in record.known
        if generation.serving.cloud.component is None
    }
    models: Names = {("model", name) for g in record.known for name in g.serving.models}
    return configs | models | unfinished_names(record)


def unfinished_names(record: Record | None) -> Names:
    """Of models and configs that an `up` began to make which did not end: they may be too new to be shown."""
    if record is None:
        return set()
    return {
        *(("model", str(intent.names.get("model", ""))) for intent in record.started(CreateModel)),
        *(
            ("endpoint-config", str(intent.names.get("config", "")))
            for intent in record.started(CreateEndpointConfig)
        ),
    }


def _recorded_models(config: str, record: Record | None) -> Iterator[str]:
    """The models that one of our configs names, if the config itself is deleted."""
    for generation in record.generations if record else ():
        if generation.server == config:
            yield from generation.serving.models
