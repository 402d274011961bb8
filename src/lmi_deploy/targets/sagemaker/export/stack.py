"""The desired state of a deployment as the resources of a stack, in the terms of AWS's API.

Each format writes the same resources with its own names. What neither of them can express is refused by its key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.exported_stack import exported_address
from lmi_deploy.domain.sagemaker.resource_fields import (
    endpoint_config_request,
    model_request,
    update_policy_request,
)
from lmi_deploy.domain.sagemaker.resource_settings import EndpointConfigSettings, ModelSettings
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Refused
from lmi_deploy.targets.sagemaker.desired_state import desired_state
from lmi_deploy.targets.sagemaker.export.header import header
from lmi_deploy.targets.sagemaker.export.parameters import (
    Parameter,
    Text,
    environment_parameters,
    shared_parameters,
)
from lmi_deploy.targets.sagemaker.export.scaling import ScalingFields, scaling_fields

Value: TypeAlias = Any
"""Of a resource: JSON's values, Parameter and Text."""
TAG: Final = ("exported-by", "lmi")
"""On every resource: a plain tag. Those of lmi (`lmi:`) would make the resources its own."""
_NOT_RESOURCES: Final = frozenset(
    {"ttl", "travel", "token_secret", "job", "scheduler_role", "compile", "account", "partition", "region"}
)
"""Of a place: what `lmi up` does, or where it does it."""
_EXPORTED: Final[Mapping[type, frozenset[str]]] = {
    SageMakerPlace: frozenset(
        {
            *("bucket", "role", "image", "placements", "count", "environment", "delivery", "model_download"),
            *("startup_timeout", "network_isolation", "vpc", "kms_key", "scaling", "tags", "data_capture"),
            *("asynchronous", "update", *_NOT_RESOURCES),
        }
    ),
    ModelSettings: frozenset(
        {"role", "image", "environment", "artifact", "mounts", "network_isolation", "vpc"}
    ),
    EndpointConfigSettings: frozenset(
        {
            *("model", "instance", "count", "model_download", "startup", "volume_gb", "host_ami", "kms_key"),
            *("data_capture", "asynchronous"),
        }
    ),
    Scaling: frozenset(
        {
            *("least", "most", "invocations", "concurrency", "metric", "backlog", "steps", "scheduled"),
            *("scale_in", "scale_in_cooldown", "scale_out_cooldown"),
        }
    ),
}
"""The fields that an export expresses: a new one is refused until both formats write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The resources of one deployment. The requests have no names and tags."""

    deployment: str
    spec: Spec
    header: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    """Endpoint name, role, bucket; then the recipe's environment variables."""
    model: Mapping[str, Value]
    config: Mapping[str, Value]
    """Its variant names no model: each format refers to the resource."""
    update: Mapping[str, Value] | None
    scaling: ScalingFields | None
    tags: Pairs
    digest: str
    """Of the settings of model and endpoint config, which cannot be changed: other settings, other resources."""

    @property
    def endpoint_name(self) -> Parameter:
        return self.parameters[0]


def stack_of(spec: Spec, artifact: Artifact, *, with_environment: bool) -> Stack:
    """`with_environment`: with the values of `container.environment` as defaults. Refused for what a stack cannot
    express.
    """
    place = spec.cloud
    _require_exported(place, "endpoint")
    desired = desired_state(spec, artifact)
    settings = replace(desired.settings, artifact=exported_address(spec, artifact))
    config = replace(desired.configs[0].settings, model="")
    for part in (settings, config, *((place.scaling,) if place.scaling else ())):
        _require_exported(part, "endpoint")
    shared = shared_parameters(spec)
    own = dict(ENGINES[spec.engine.name].environment(spec.engine))
    given = {name: value for name, value in settings.environment if own.get(name) != value}
    fixed = tuple(pair for pair in settings.environment if pair[0] not in given)
    variables = environment_parameters(given, with_values=with_environment)
    bind = _binder(spec, shared)
    model = model_request(replace(settings, environment=()))
    environment = {name: variables.get(name) or bind(value) for name, value in settings.environment}
    model["PrimaryContainer"]["Environment"] = environment
    return Stack(
        deployment=spec.name,
        spec=spec,
        header=header(spec, artifact),
        parameters=(*shared, *variables.values()),
        model=bind(model),
        config=bind(endpoint_config_request(config)),
        update=bind(update_policy_request(place.update)) if place.update else None,
        scaling=scaling_fields(place.scaling, shared[0], bind) if place.scaling else None,
        tags=tuple(sorted({**dict(place.tags), TAG[0]: TAG[1]}.items())),
        digest=digest([replace(settings, environment=fixed), sorted(given), config])[:16],
    )


def _require_exported(part: Any, where: str) -> None:
    for each in dataclasses.fields(part):
        value = getattr(part, each.name)
        if each.name == "build" and value is not None:
            raise Refused(
                "container.build: a stack cannot build an image",
                hint="push the image to a repository of your own, and name it with container.image",
            )
        is_unset = not value if each.default is dataclasses.MISSING else value == each.default
        if each.name in _EXPORTED[type(part)] or is_unset:
            continue
        raise Refused(
            f"{where}.{each.name}: `lmi export` cannot express it yet",
            hint="remove it for the export with --set or an overlay, and set it in the stack by hand; or use `lmi up`",
        )


def _binder(spec: Spec, shared: tuple[Parameter, ...]) -> Callable[[Value], Value]:
    """Replaces role and bucket by their parameters in every value, and the endpoint in the dimensions of metrics."""
    endpoint, role, bucket = shared
    place = spec.cloud
    address, dimension = f"s3://{place.bucket}/", {"Name": "EndpointName", "Value": spec.name}

    def bind(value: Value) -> Value:
        if value == dimension:
            return {**dimension, "Value": endpoint}
        if isinstance(value, Mapping):
            return {key: bind(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [bind(item) for item in value]
        if not isinstance(value, str):
            return value
        if value == place.role:
            return role
        before, found, after = value.partition(address)
        return Text((f"{before}s3://", bucket, f"/{after}")) if found else value

    return bind
