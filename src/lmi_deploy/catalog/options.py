"""Which `option.*` a server of some version knows: it drops any other silently, so they are looked up before.

The table is compiled from DJLServing's own property classes and documentation; `source` names the versions. The
arguments that a server passes on to vLLM are in `catalog/vllm_arguments.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from lmi_deploy.catalog import vllm_arguments

State = Literal["known", "unknown", "removed", "later"]

IMAGE_TEMPLATE: Final = "image-text-to-text"
"""Of vision-language models, whose task is text-generation: a chat with images."""
_DTYPES = ("fp32", "fp16", "bf16", "auto")
TEMPLATE_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "text-generation": {
        "dtype": _DTYPES,
        "device_map": (),
        "max_new_tokens": (),
        "max_model_len": (),
        "torch_threads": (),
        "served_model_name": (),
    },
    "text2text-generation": {
        "dtype": _DTYPES,
        "max_new_tokens": (),
        "max_model_len": (),
        "torch_threads": (),
    },
    "text-embedding": {
        "dtype": _DTYPES,
        "pooling": ("mean", "cls", "max", "lasttoken"),
        "normalize": ("true", "false"),
        "max_model_len": (),
        "torch_threads": (),
        "served_model_name": (),
    },
    "text-classification": {
        "dtype": _DTYPES,
        "max_model_len": (),
        "torch_threads": (),
    },
    "question-answering": {
        "dtype": _DTYPES,
        "max_model_len": (),
        "stride": (),
        "torch_threads": (),
    },
    IMAGE_TEMPLATE: {
        "dtype": _DTYPES,
        "device_map": (),
        "max_new_tokens": (),
        "max_model_len": (),
        "torch_threads": (),
        "served_model_name": (),
    },
}
"""The settings that lmi's own handlers read, with their values if those are few."""

_COUNT = vllm_arguments.ArgumentRule(kind="int", ge=0)
_AT_LEAST_ONE = vllm_arguments.ArgumentRule(kind="int", ge=1)
SERVER_KEYS: Final[dict[str, vllm_arguments.ArgumentRule]] = {
    "batch_size": _AT_LEAST_ONE,
    "gpu.maxWorkers": _COUNT,
    "gpu.minWorkers": _COUNT,
    "job_queue_size": _AT_LEAST_ONE,
    "load_on_devices": vllm_arguments.ArgumentRule(kind="text"),
    "log_request_metric": vllm_arguments.ArgumentRule(kind="flag"),
    "max_batch_delay": _COUNT,
    "max_idle_time": _COUNT,
    "maxWorkers": _COUNT,
    "metrics_aggregation": _AT_LEAST_ONE,
    "minWorkers": _COUNT,
    "required_memory_mb": _COUNT,
    "reserved_memory_mb": _COUNT,
    "retry_threshold": _COUNT,
}
"""The server's own keys (ModelInfo.java, WorkerPoolConfig.java), which have no `option.` prefix and are ignored with
it.
"""

_BOOLEANS = ("true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n")


_PASSED_ON_SINCE: Final = 14
"""The LMI image of DJLServing 0.32, the first that passes other options on to vLLM."""
_LAST_ALONE: Final = 17
"""The LMI image of DJLServing 0.35; up to there each server version has one image."""


_OF_0_38: Final = 29
"""The first image of DJLServing 0.38; there is none of 0.37."""


@dataclass(frozen=True, slots=True)
class OptionStatus:
    """How a version treats an option. `edge`: the version that removed it, or the first that has it."""

    state: State
    edge: str = ""
    values: tuple[str, ...] = ()
    kind: str = ""
    instead: str = ""


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name("options.json").read_text(encoding="ascii"))
    return table


def source() -> tuple[str, str]:
    """The source of the table, and its date."""
    return _table()["source"], _table()["date"]


def linted(engine: str) -> bool:
    """Whether the table contains every option that this engine reads; the others accept any."""
    return engine in _table()["engines"]


def covers(engine: str, version: str) -> bool:
    """Whether the table knows the engine's options as early as this version of its server."""
    return _order(version) >= _order(_table()["engines"][engine].get("covers", "0"))


def is_complete(engine: str) -> bool:
    """Whether the server ignores every option that the table does not contain; it may use others as well."""
    return not _table()["engines"][engine].get("open", False)


def newest(engine: str) -> str:
    """The server version that a recipe means that names none."""
    version: str = _table()["engines"][engine]["newest"]
    return version


def newest_image() -> str:
    """The newest image of LMI whose options lmi knows completely, as container.version."""
    return newest("vllm").replace("/", "-")


def engines() -> tuple[str, ...]:
    """The engines whose options the table knows."""
    return tuple(_table()["engines"])


def versions() -> tuple[str, ...]:
    """The server versions that the table covers, oldest first."""
    return tuple(_table()["versions"])


@cache
def names(engine: str, version: str) -> tuple[str, ...]:
    """Every option that this version of the engine's server knows."""
    known = {name for table in _classes(engine) for name, spans in table.items() if _now(spans, version)}
    return tuple(sorted(known | set(_server())))


def option_status(engine: str, name: str, version: str) -> OptionStatus:
    """How `version` treats the option `name`."""
    spans = [span for table in _classes(engine) for span in table.get(name, ())]
    now = _now(spans, version)
    if now:
        kinds = [span[2] for span in now if span[2]]
        kind = next((kind for kind in kinds if kind in ("bool", "int", "float")), "")
        return OptionStatus("known", values=_values(kinds, version), kind=kind)
    instead = _table()["replaced"].get(name, "") if engine == "vllm" else ""
    missing = [span[1] for span in spans if span[1] and _order(span[1]) <= _order(version)]
    if missing:
        return OptionStatus("removed", edge=max(missing, key=_order), instead=instead)
    if spans:
        return OptionStatus("later", edge=min((span[0] for span in spans), key=_order))
    return OptionStatus("unknown", instead=instead)


def template_names() -> tuple[str, ...]:
    """The settings that any of lmi's own handlers reads."""
    return tuple(sorted({name for known in TEMPLATE_OPTIONS.values() for name in known}))


def server_names() -> tuple[str, ...]:
    """The settings that the server itself reads, for any handler."""
    return tuple(sorted(_server()))


def acceptable(kind: str, value: str) -> bool:
    """Whether pydantic, which reads options in the server, accepts `value` as this kind."""
    text = value.strip().lower()
    if kind == "bool":
        return text in _BOOLEANS
    if kind == "int":
        return re.fullmatch(r"[+-]?[0-9]+(_[0-9]+)*(\.0+)?", text) is not None
    if kind == "float":
        return re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", text) is not None
    return True


def _server() -> dict[str, Any]:
    server: dict[str, Any] = _table()["classes"]["server"]
    return server


def _classes(engine: str) -> Iterator[dict[str, list[list[Any]]]]:
    for name in _table()["engines"][engine]["classes"]:
        yield _table()["classes"][name]
    if engine == "vllm":
        yield _passed_on()


@cache
def _passed_on() -> dict[str, list[list[Any]]]:
    """The arguments of vLLM itself, which DJLServing passes on since 0.32."""
    found = {}
    for name, spans in vllm_arguments.argument_spans().items():
        kept = [(since, until) for since, until in spans if until is None or until > _PASSED_ON_SINCE]
        if kept:
            found[name] = [[_server_of(since), until and _server_of(until), ""] for since, until in kept]
    return found


def _server_of(image: int) -> str:
    """The server version in an LMI image."""
    image = max(image, _PASSED_ON_SINCE)
    if image <= _LAST_ALONE:
        return f"0.{18 + image}.0"
    return f"{'0.36.0' if image < _OF_0_38 else '0.38.0'}/lmi{image}"


def _now(spans: list[list[Any]], version: str) -> list[list[Any]]:
    local = _order(version)
    return [s for s in spans if _order(s[0]) <= local and (s[1] is None or local < _order(s[1]))]


def _values(kinds: list[str], version: str) -> tuple[str, ...]:
    """The words of the narrowest enumeration in force."""
    found: list[list[str]] = []
    for history in (_table()["enums"][kind] for kind in kinds if kind in _table()["enums"]):
        in_force = [values for since, values in history if _order(since) <= _order(version)]
        if in_force and in_force[-1]:
            found.append(in_force[-1])
    narrowest: list[str] = min(found, key=len, default=[])
    return tuple(narrowest)


@cache
def _order(version: str) -> tuple[int, ...]:
    """`0.36.0/lmi27` after `0.36.0/lmi18`; a bare `0.36.0` means its newest image."""
    number, _, image = version.partition("/lmi")
    parts = [int(part) for part in re.findall(r"[0-9]{1,6}", number)[:3]]
    return (*parts, *([0] * (3 - len(parts))), int(image) if image else 9999)
