"""The settings of one model from `serving.properties`, the environment, and the defaults of the LMI image.

The precedence is the real server's: SageMaker's own variables override the file, the file overrides `OPTION_*`,
`SERVING_*` and `ARGS_*`. An implicit default is applied here but not passed to the handler.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lmi_deploy.domain.djl_serving import MODEL_PY, SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.server.models.property_values import InvalidSettings, hash_order, integer, number, parse_bool
from lmi_deploy.server.workers.devices import DevicePlacement, mpi, placed

BUILT_IN_HANDLER = "djl_python.huggingface"

_UPPER_CASE_KEYS = re.compile(r"[A-Z_0-9]+")
_SERVING = {"SERVING_MIN_WORKERS": "minWorkers", "SERVING_MAX_WORKERS": "maxWorkers"}
_SAGEMAKER = {
    "SAGEMAKER_NUM_MODEL_WORKERS": ("minWorkers", "maxWorkers"),
    "SAGEMAKER_STARTUP_TIMEOUT": ("option.model_loading_timeout",),
    "SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS": ("option.predict_timeout",),
    "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": ("option.default_accept",),
}
_WORKERS = {f"{device}{bound}Workers" for device in ("", "cpu.") for bound in ("min", "max")}
_HEALTH_OVERRIDES = ("SERVING_HEALTH_CHECK_OVERRIDE", "SAGEMAKER_HEALTH_CHECK_OVERRIDE")
_GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
_LMI_SERVICES = {
    "vllm": "djl_python.lmi_vllm.vllm_async_service",
    "trtllm": "djl_python.lmi_trtllm.trtllm_async_service",
}
"""Handlers that load vLLM or TensorRT-LLM, which fill a device and serve many requests at once."""


class UnknownEngine(InvalidSettings):
    """Nothing in the folder says which engine serves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Numbers that steer the queue and the workers of one model; times in seconds."""

    batch_size: int
    max_batch_delay: float
    max_idle_time: float
    job_queue_size: int
    retry_threshold: int
    predict_timeout: float
    model_loading_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingProperties:
    """One model, resolved: nothing after this reads the file or the environment for it."""

    name: str
    version: str | None = None
    folder: Path
    entry_point: str
    recommended_entry_point: str
    handler: str
    async_mode: bool
    never_fails: bool
    initialise: Mapping[str, str]
    limits: ServerLimits
    places: tuple[DevicePlacement, ...]
    one_engine: bool = False
    """Its worker is a whole inference engine, and no setting gives the number of workers."""
    parallel_loading: bool = False
    mpi: bool = False
    enable_lora: bool = False
    url: str = ""
    """The URL of its registration, as written; empty for a model of the start."""
    pipeline_parallel_degree: int = 1
    python: str | None = None
    """The model's own interpreter."""
    extra_environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDefaults:
    """The settings outside the model's own files.

    `defaults` are the server's own (config.properties, SERVING_*); `over` comes from a registration and overrides the
    file.
    """

    defaults: Mapping[str, str]
    environ: Mapping[str, str]
    gpus: int = 0
    over: Mapping[str, str] = field(default_factory=dict)


def _merged_properties(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The file's keys, merged with those of the environment that have lower and higher precedence."""
    path = folder / SERVING_PROPERTIES
    found: dict[str, str] = {}
    for name, value in environ.items():
        if name.startswith("OPTION_"):
            found[_option_key(name.removeprefix("OPTION_"))] = value
        elif name.startswith("ARGS_"):
            found[name.removeprefix("ARGS_").lower()] = value
        elif name in _SERVING:
            found[_SERVING[name]] = value
    if "TENSOR_PARALLEL_DEGREE" in environ:
        found["option.tensor_parallel_degree"] = environ["TENSOR_PARALLEL_DEGREE"]
    if path.is_file():
        found |= parse_properties(path.read_bytes())
    for name, keys in _SAGEMAKER.items():
        if name in environ:
            found.update(dict.fromkeys(keys, environ[name]))
    return found


def _option_key(name: str) -> str:
    if name == "ENGINE":
        return "engine"
    if name == "ENTRYPOINT":
        return "option.entryPoint"
    return f"option.{name.lower() if _UPPER_CASE_KEYS.fullmatch(name) else name}"


def resolve(folder: Path, *, name: str, around: ServerDefaults) -> ServingProperties:
    """Settings of the model in `folder`."""
    defaults, environ = around.defaults, around.environ
    merged = _merged_properties(folder, environ)
    engine = {**merged, **around.over}.get("engine", "Python")
    if engine not in ("Python", "MPI"):
        raise InvalidSettings(f"{folder / SERVING_PROPERTIES}: Deep learning engine not found: {engine}")
    merged |= _lmi_defaults(folder, merged, environ)
    # Registration settings are applied, but not passed to the handler.
    response = {**merged, **around.over}
    limits = _limits(response, defaults, environ)
    entry, fallback = _entry_points(folder, name, merged, environ)
    one_engine = (entry or fallback) in _LMI_SERVICES.values() and not _WORKERS & response.keys()
    environment = (pair.partition("=") for pair in merged.get("option.env", "").split(",") if "=" in pair)
    return ServingProperties(
        name=name,
        folder=folder,
        entry_point=entry,
        recommended_entry_point=fallback,
        handler=merged.get("option.handler", "handle"),
        async_mode=parse_bool(merged.get("option.async_mode", "")),
        never_fails=any(parse_bool(environ.get(name, "")) for name in _HEALTH_OVERRIDES),
        initialise=_initialise(merged, limits.batch_size),
        limits=limits,
        places=placed(response, defaults, environ, around.gpus, one_engine=one_engine),
        one_engine=one_engine,
        parallel_loading=parse_bool(merged.get("option.parallel_loading", "")),
        mpi=mpi(merged),
        enable_lora=parse_bool(merged.get("option.enable_lora", "")),
        pipeline_parallel_degree=number([merged], "option.pipeline_parallel_degree", 1),
        python=merged.get("option.pythonExecutable"),
        extra_environment={key.strip(): value.strip() for key, _, value in environment},
    )


def _lmi_defaults(folder: Path, merged: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Keys that the server sets for a model with a config.json, after `LmiConfigRecommender` of 0.36: the rolling batch
    `auto` means none, and an image with vLLM or TensorRT-LLM generates text in async mode.
    """
    architectures = _architectures(folder, merged)
    if architectures is None:
        return {}
    if merged.get("batch_size", "1") != "1":
        return {"option.rolling_batch": "disable"}
    if merged.get("option.rolling_batch", "auto") != "auto":
        return {}
    generates = any(name.endswith(_GENERATES) for name in architectures)
    is_async = generates and _lmi_service(environ) is not None
    return {"option.rolling_batch": "disable"} | ({"option.async_mode": "true"} if is_async else {})


def _lmi_service(environ: Mapping[str, str]) -> str | None:
    """The built-in handler of the image's engine, by its SERVING_FEATURES."""
    features = environ.get("SERVING_FEATURES", "").split(",")
    return next((service for name, service in _LMI_SERVICES.items() if name in features), None)


def _architectures(folder: Path, merged: Mapping[str, str]) -> list[str] | None:
    for place in (folder, Path(merged.get("option.model_id", folder))):
        try:
            described = json.loads((place / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(described, dict):
            return [str(name) for name in described.get("architectures") or ()]
    return None


def _entry_points(
    folder: Path, name: str, merged: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str, str]:
    has_model = "option.model_id" in merged or (folder / "config.json").is_file()
    stated = merged.get("option.entryPoint") or environ.get("DJL_ENTRY_POINT", "")
    built_in = BUILT_IN_HANDLER
    if parse_bool(merged.get("option.async_mode", "")):
        built_in = _lmi_service(environ) or built_in
    if stated:
        if stated.endswith(".py") and not (folder / stated).is_file():
            raise InvalidSettings(f"{folder}: entryPoint {stated} does not exist")
        return stated, built_in if has_model and "option.entryPoint" not in merged else ""
    named = (MODEL_PY, f"{merged.get('option.modelName', name)}.py")
    own = next((file for file in named if (folder / file).is_file()), "")
    if not own and not has_model:
        kind = InvalidSettings if "engine" in merged else UnknownEngine
        raise kind(
            f"{folder}: no model.py, no option.entryPoint, no option.model_id and no config.json: .py file not found"
        )
    return own, built_in if has_model else ""


def _initialise(merged: Mapping[str, str], batch_size: int) -> dict[str, str]:
    sent = {
        key.removeprefix("option."): value for key, value in sorted(merged.items()) if key != "option.env"
    }
    sent.setdefault("handler", "handle")
    if mpi(merged):
        sent["mpi_mode"] = "true"
    if batch_size > 1:
        sent["batchifier"] = "stack"
    if "tensor_parallel_degree" in sent and "maxWorkers" not in sent:
        sent |= {"gpu.minWorkers": "1", "gpu.maxWorkers": "1"}
    return {key: sent[key] for key in hash_order(sent)}


def _limits(
    merged: Mapping[str, str], defaults: Mapping[str, str], environ: Mapping[str, str]
) -> ServerLimits:
    stated = partial(number, (merged, defaults))
    threshold = integer("SERVING_RETRY_THRESHOLD", environ.get("SERVING_RETRY_THRESHOLD", "0"))
    retries = merged.get("retry_threshold", defaults.get("retry_threshold"))
    if retries is not None:  # a blank after this number does no harm in the real server
        threshold = integer("retry_threshold", retries.strip())
    predict = _seconds(environ.get("PREDICT_TIMEOUT"), 120)
    loading = _seconds(environ.get("MODEL_LOADING_TIMEOUT"), 240)
    queue = stated("job_queue_size", 1000)
    if queue < 1:
        raise InvalidSettings(f"job_queue_size={queue}: the queue must hold at least 1 request")
    return ServerLimits(
        batch_size=stated("batch_size", 1, "max_dynamic_batch_size"),
        max_batch_delay=stated("max_batch_delay", 100) / 1000,
        max_idle_time=stated("max_idle_time", 60),
        job_queue_size=queue,
        retry_threshold=threshold,
        predict_timeout=_seconds(merged.get("option.predict_timeout"), predict),
        model_loading_timeout=_seconds(merged.get("option.model_loading_timeout"), loading),
    )


def _seconds(text: str | None, usual: int) -> int:
    """Unlike any other number, an invalid time limit is silently ignored."""
    try:
        return int(text) if text is not None else usual
    except ValueError:
        return usual
