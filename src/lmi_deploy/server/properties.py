"""What `serving.properties` and the environment together say about one model.

The precedence is the real server's: SageMaker's own variables beat the file, the file beats `OPTION_*`, `SERVING_*` and
`ARGS_*`; a default that nobody wrote is applied here but not told to the handler.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lmi_deploy.core.javaproperties import parse_properties
from lmi_deploy.server.recommend import recommended, service

PROPERTIES_FILE = "serving.properties"
BUILT_IN_HANDLER = "djl_python.huggingface"
SECRET_NAMES = re.compile(
    r"^(HF_TOKEN|HUGGING_?FACE_(HUB_)?TOKEN|AWS_(SECRET_ACCESS_KEY|SESSION_TOKEN|ACCESS_KEY_ID))$"
)

_SHOUTED = re.compile(r"[A-Z_0-9]+")
_SERVING = {"SERVING_MIN_WORKERS": "minWorkers", "SERVING_MAX_WORKERS": "maxWorkers"}
_SAGEMAKER = {
    "SAGEMAKER_NUM_MODEL_WORKERS": ("minWorkers", "maxWorkers"),
    "SAGEMAKER_STARTUP_TIMEOUT": ("option.model_loading_timeout",),
    "SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS": ("option.predict_timeout",),
    "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": ("option.default_accept",),
}
_HEALTH_OVERRIDES = ("SERVING_HEALTH_CHECK_OVERRIDE", "SAGEMAKER_HEALTH_CHECK_OVERRIDE")


class BadSettings(Exception):
    """The model folder cannot be served as it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Numbers that steer the queue and the workers of one model; times in seconds."""

    batch_size: int
    max_batch_delay: float
    max_idle_time: float
    job_queue_size: int
    retry_threshold: int
    predict_timeout: float
    model_loading_timeout: float
    min_workers: int
    max_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """One model, resolved: nothing after this reads the file or the environment for it."""

    name: str
    version: str | None
    folder: Path
    entry_point: str
    recommended_entry_point: str
    handler: str
    async_mode: bool
    never_fails: bool
    initialise: Mapping[str, str]
    limits: Limits
    extra_environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def merged_properties(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The file's keys with the environment's laid under and over them."""
    path = folder / PROPERTIES_FILE
    found = parse_properties(path.read_bytes()) if path.is_file() else {}
    for key, value in _from_environment(environ).items():
        found.setdefault(key, value)
    for name, keys in _SAGEMAKER.items():
        if name in environ:
            found.update(dict.fromkeys(keys, environ[name]))
    return found


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
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
    return found


def _option_key(name: str) -> str:
    if name == "ENGINE":
        return "engine"
    if name == "ENTRYPOINT":
        return "option.entryPoint"
    return f"option.{name.lower() if _SHOUTED.fullmatch(name) else name}"


def resolve(
    folder: Path,
    *,
    name: str,
    version: str | None = None,
    defaults: Mapping[str, str],
    environ: Mapping[str, str],
) -> ModelSettings:
    """Settings of the model in `folder`; `defaults` are the server's own (config.properties, SERVING_*)."""
    merged = merged_properties(folder, environ)
    _check_engine(folder, merged)
    merged = recommended(folder, merged, environ) | merged
    limits = _limits(merged, defaults, environ)
    entry, fallback = _entry_points(folder, merged, environ)
    return ModelSettings(
        name=name,
        version=version,
        folder=folder,
        entry_point=entry,
        recommended_entry_point=fallback,
        handler=merged.get("option.handler", "handle"),
        async_mode=merged.get("option.async_mode", "").lower() == "true",
        never_fails=any(environ.get(name, "").lower() == "true" for name in _HEALTH_OVERRIDES),
        initialise=_initialise(merged, limits.batch_size),
        limits=limits,
        extra_environment=_pairs(merged.get("option.env", "")),
    )


def _check_engine(folder: Path, merged: Mapping[str, str]) -> None:
    engine = merged.get("engine", "Python")
    if engine == "MPI" or merged.get("option.mpi_mode", "").lower() == "true":
        raise BadSettings(
            f"{folder / PROPERTIES_FILE}: engine=MPI runs one process per GPU under mpirun, not done here; "
            "use engine=Python here, or the container runtime"
        )
    if engine != "Python":
        raise BadSettings(f"{folder / PROPERTIES_FILE}: Deep learning engine not found: {engine}")


def _entry_points(folder: Path, merged: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, str]:
    has_model = "option.model_id" in merged or (folder / "config.json").is_file()
    stated = merged.get("option.entryPoint") or environ.get("DJL_ENTRY_POINT", "")
    built_in = BUILT_IN_HANDLER
    if merged.get("option.async_mode", "").lower() == "true":
        built_in = service(environ) or built_in
    if stated:
        _check_entry_point(folder, stated)
        return stated, built_in if has_model and "option.entryPoint" not in merged else ""
    own = "model.py" if (folder / "model.py").is_file() else ""
    if not own and not has_model:
        raise BadSettings(
            f"{folder}: no model.py, no option.entryPoint, no option.model_id and no config.json: .py file not found"
        )
    return own, built_in if has_model else ""


def _check_entry_point(folder: Path, stated: str) -> None:
    if stated.endswith(".py") and not (folder / stated).is_file():
        raise BadSettings(f"{folder}: entryPoint {stated} does not exist")


def _initialise(merged: Mapping[str, str], batch_size: int) -> dict[str, str]:
    sent = {
        key.removeprefix("option."): value for key, value in sorted(merged.items()) if key != "option.env"
    }
    sent.setdefault("handler", "handle")
    if batch_size > 1:
        sent["batchifier"] = "stack"
    if "tensor_parallel_degree" in sent and "maxWorkers" not in sent:
        sent |= {"gpu.minWorkers": "1", "gpu.maxWorkers": "1"}
    return {key: sent[key] for key in hash_order(sent)}


def hash_order(keys: Collection[str]) -> list[str]:
    """The order in which a Java HashMap tells its keys, put in as given: handlers and clients see it."""
    size = 16
    while len(keys) > size * 0.75:
        size *= 2
    return sorted(keys, key=lambda key: _java_hash(key) & (size - 1))


def _java_hash(text: str) -> int:
    code = 0
    for char in text:
        code = (31 * code + ord(char)) & 0xFFFFFFFF
    return code ^ (code >> 16)


def _pairs(text: str) -> dict[str, str]:
    split = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {key.strip(): value.strip() for key, _, value in split}


def _limits(merged: Mapping[str, str], defaults: Mapping[str, str], environ: Mapping[str, str]) -> Limits:
    def number(key: str, fallback: int, *aliases: str) -> int:
        for name in (key, *aliases):
            for source in (merged, defaults):
                if name in source:
                    return _integer(name, source[name])
        return fallback

    low = number("cpu.minWorkers", number("minWorkers", 1))
    high = number("cpu.maxWorkers", number("maxWorkers", _default_workers(environ)))
    return Limits(
        batch_size=number("batch_size", 1, "max_dynamic_batch_size"),
        max_batch_delay=number("max_batch_delay", 100) / 1000,
        max_idle_time=number("max_idle_time", 60),
        job_queue_size=number("job_queue_size", 1000),
        retry_threshold=number("retry_threshold", _integer("", environ.get("SERVING_RETRY_THRESHOLD", "0"))),
        predict_timeout=number("option.predict_timeout", _integer("", environ.get("PREDICT_TIMEOUT", "120"))),
        model_loading_timeout=number(
            "option.model_loading_timeout", _integer("", environ.get("MODEL_LOADING_TIMEOUT", "240"))
        ),
        min_workers=min(low, high),
        max_workers=high,
    )


def _default_workers(environ: Mapping[str, str]) -> int:
    threads = environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > 0:
        return max(1, (os.cpu_count() or 1) // int(threads))
    return 2


def _integer(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as exc:
        raise BadSettings(f'{key}={text}: For input string: "{text}"') from exc


def worker_environment(environ: Mapping[str, str], settings: ModelSettings, engine: Path) -> dict[str, str]:
    """The server's own environment without what is ours to withhold, and with the engine on PYTHONPATH."""
    passed = {key: value for key, value in environ.items() if not SECRET_NAMES.match(key)}
    before = [passed["PYTHONPATH"]] if passed.get("PYTHONPATH") else []
    passed["PYTHONPATH"] = os.pathsep.join([*before, str(engine), str(settings.folder)])
    # Without this a handler's print() would lie in a pipe's buffer until it is full.
    passed.setdefault("PYTHONUNBUFFERED", "1")
    return passed | dict(settings.extra_environment)
