"""The recipe's names of settings that servers, SageMaker and failures of the table call by their own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lmi_deploy.catalog.options import SERVER_KEYS
from lmi_deploy.recipe.model.scalar_type import InvalidValue
from lmi_deploy.recipe.model.user_mappings import ENVIRONMENT_HOMES, OPTION_HOMES, environment_key

_OPTION: Final = re.compile(r"\boption\.[A-Za-z]\w*")
RECIPE_KEYS: Final = {
    "ComputeResourceRequirements.MinMemoryRequiredInMb": "endpoint.component.memory_mb",
    "ContainerStartupHealthCheckTimeoutInSeconds": "timeouts.container_startup",
    "DeploymentConfig": "endpoint.update",
    "EnableNetworkIsolation": "endpoint.network_isolation",
    "EndpointConfig.ExecutionRoleArn": "endpoint.role",
    "InferenceAmiVersion": "container.host_ami",
    "ManagedInstanceScaling": "endpoint.instance_scaling",
    "ManagedInstanceScaling.MinInstanceCount": "endpoint.instance_scaling.min",
    "ModelDataDownloadTimeoutInSeconds": "timeouts.model_download",
    "ModelDataSource.S3DataSource.S3Uri": "model_id",
    "RuntimeConfig.CopyCount": "endpoint.component.copies",
    "VolumeSizeInGB": "endpoint.volume_gb",
    "VpcConfig": "endpoint.vpc",
    "VpcConfig.SecurityGroupIds": "endpoint.vpc.security_groups",
    "autoscaling": "endpoint.autoscaling",
    "default_bucket": "endpoint.bucket",
    "endpoint_name": "name",
    "env": "container.environment",
    "image": "container.image",
    "image_uri": "container.image",
    "instance_count": "endpoint.count",
    "model.py": "handler.file",
    "model_data": "model_id",
    "option.*": "options",
    "option.<name>": "options",
    "option.adapters": "adapters",
    "option.speculative_config.model": "options.speculative_config",
    "option.tensor_parallel_size": "tensor_parallel_degree",
    "requirements.txt": "requirements",
    "role": "endpoint.role",
}


def recipe_key_of(setting: str) -> str:
    """The recipe's key for a setting; the setting itself if the recipe calls it the same, or has no key for it."""
    if known := RECIPE_KEYS.get(setting):
        return known
    if setting.startswith("option."):
        name = setting.removeprefix("option.")
        return OPTION_HOMES.get(name, f"options.{name}")
    if setting.startswith("env."):
        return _environment(setting)
    return f"properties.{setting}" if setting in SERVER_KEYS else setting


def settings_text(settings: Iterable[str]) -> str:
    """The settings by the recipe's names, with their own names where these are others; each once."""
    by_key: dict[str, list[str]] = {}
    for setting in settings:
        key = recipe_key_of(setting)
        own = by_key.setdefault(key, [])
        if setting not in (key, key.replace("options.", "option.", 1), *own):
            own.append(setting)
    return ", ".join(f"{key} ({', '.join(own)})" if own else key for key, own in by_key.items())


def with_recipe_keys(text: str) -> str:
    """A remedy with the recipe's keys in place of the options of serving.properties."""
    return _OPTION.sub(lambda match: recipe_key_of(match[0]), text)


def _environment(setting: str) -> str:
    name = setting.removeprefix("env.")
    if name in ENVIRONMENT_HOMES:
        return ENVIRONMENT_HOMES[name]
    try:
        return f"container.environment.{environment_key(name)}"
    except InvalidValue:
        return setting
