"""Every spelling of a setting that DJLServing has had, as one: the keys of today's serving.properties.

Source: djl-serving 0.20 to 0.36, wlm ModelInfo.java `loadServingProperties` and util/SageMakerCompatibility.java.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lmi_deploy.domain.recipe_keys import Engine

_UPPER = re.compile(r"[A-Z_0-9]+")
_PLAIN_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "HF_MODEL_ID": ("option.model_id",),
    "HF_REVISION": ("option.revision",),
    "HF_TASK": ("option.task",),
    "HF_MODEL_TRUST_REMOTE_CODE": ("option.trust_remote_code",),
    "HF_TRUST_REMOTE_CODE": ("option.trust_remote_code",),
    "TENSOR_PARALLEL_DEGREE": ("option.tensor_parallel_degree",),
    "MODEL_LOADING_TIMEOUT": ("option.model_loading_timeout",),
    "PREDICT_TIMEOUT": ("option.predict_timeout",),
    "DJL_ENTRY_POINT": ("option.entryPoint",),
    "OPTION_ENGINE": ("engine",),
    "OPTION_ENTRYPOINT": ("option.entryPoint",),
    "SERVING_MIN_WORKERS": ("minWorkers",),
    "SERVING_MAX_WORKERS": ("maxWorkers",),
}
"""Variables of which serving.properties wins."""
_OVERRIDING: Final[Mapping[str, tuple[str, ...]]] = {
    "SAGEMAKER_NUM_MODEL_WORKERS": ("minWorkers", "maxWorkers"),
    "SAGEMAKER_STARTUP_TIMEOUT": ("option.model_loading_timeout",),
    "SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS": ("option.predict_timeout",),
    "SAGEMAKER_MODEL_SERVER_TIMEOUT": ("option.predict_timeout",),
}
"""Variables that win over serving.properties (0.35 and newer)."""
_ALIASES: Final[Mapping[str, str]] = {
    "option.s3url": "option.model_id",
    "option.s3Url": "option.model_id",
    "option.model_id_or_path": "option.model_id",
    "option.entry_point": "option.entryPoint",
    "option.entrypoint": "option.entryPoint",
    "option.tensor_parallel_size": "option.tensor_parallel_degree",
    "option.loading_timeout": "option.model_loading_timeout",
    "min_workers": "minWorkers",
    "max_workers": "maxWorkers",
    "max_dynamic_batch_size": "batch_size",
    "option.batch_size": "batch_size",
    "option.max_batch_delay": "max_batch_delay",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """`weights` is the model id if the weights lie beside the settings; `other_files` are not taken along."""

    origin: str
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    model_py: str = ""
    requirements: str = ""
    weights: str = ""
    other_files: tuple[str, ...] = ()
    command: str = "import"
    engine: Engine | None = None
    """If the image decides it."""
    container: Mapping[str, str] = field(default_factory=dict)
    """Keys of `container`, in place of the server's version."""
    timeouts: Mapping[str, int] = field(default_factory=dict)
    endpoint: Mapping[str, object] = field(default_factory=dict)
    """Keys of `endpoint` with their values: text, numbers, lists and mappings."""
    notes: tuple[str, ...] = ()


def merged_settings(
    properties: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The settings as the server would have them, and the variables that are none."""
    settings: dict[str, str] = {}
    winning: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in environment.items():
        if keys := _PLAIN_VARIABLES.get(name):
            settings.update(dict.fromkeys(keys, value))
        elif keys := _OVERRIDING.get(name):
            winning.update(dict.fromkeys(keys, value))
        elif name.startswith("OPTION_"):
            key = name.removeprefix("OPTION_")
            settings[f"option.{key.lower() if _UPPER.fullmatch(key) else key}"] = value
        else:
            others[name] = value
    return _one_spelling({**_one_spelling(settings), **_one_spelling(dict(properties)), **winning}), others


def parse_environment(text: str) -> dict[str, str]:
    """Lines of NAME=VALUE (also with `export`), a JSON object, a list of "NAME=VALUE", or the output of `docker
    inspect` or `aws sagemaker describe-model`. ValueError for anything else.
    """
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _variables(json.loads(text))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
    pairs: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, found, value = stripped.removeprefix("export ").partition("=")
        if not found or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name.strip()):
            raise ValueError(f"line {number} is not NAME=VALUE")
        pairs[name.strip()] = _unquoted(value.strip())
    return pairs


def _variables(value: object) -> dict[str, str]:
    if isinstance(value, list):
        if all(isinstance(item, str) and "=" in item for item in value):
            return dict(item.split("=", 1) for item in value)
        first = value[0] if value else None
        return _variables(first)
    if not isinstance(value, dict):
        raise ValueError("it has no environment variables")
    for key in ("Config", "PrimaryContainer", "Environment", "Env"):
        if isinstance(value.get(key), (dict, list)):
            return _variables(value[key])
    if not all(isinstance(item, (str, int, float)) for item in value.values()):
        raise ValueError("it has no environment variables")
    return {str(key): str(item) for key, item in value.items()}


def _one_spelling(settings: dict[str, str]) -> dict[str, str]:
    """The name of today wins over an older one."""
    renamed = {_ALIASES[key]: value for key, value in settings.items() if key in _ALIASES}
    return {**renamed, **{key: value for key, value in settings.items() if key not in _ALIASES}}


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
