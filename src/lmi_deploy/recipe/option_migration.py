"""What becomes of an option on another server: kept, renamed, rewritten, or left out with the reason."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog import options

_SAME: Final[Mapping[str, tuple[str, ...]]] = {
    "max_num_seqs": ("max_rolling_batch_size",),
    "max_rolling_batch_size": ("max_num_seqs",),
    "max_num_batched_tokens": ("max_rolling_batch_prefill_tokens",),
    "max_rolling_batch_prefill_tokens": ("max_num_batched_tokens",),
    "quantization": ("quantize",),
    "quantize": ("quantization",),
    "max_tokens": ("max_model_len",),
    "n_positions": ("max_model_len",),
    "max_input_len": ("max_model_len",),
}
"""Other names of the same setting, where a server does not know this one: djl-serving's user guides for vLLM 0.26 and
0.36, DeepSpeed 0.27 (`max_tokens` is the length of prompt and answer) and transformers-neuronx 0.34."""
_BY_VALUE: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("load_in_8bit", "true"): ("quantize", "bitsandbytes"),
    ("load_in_4bit", "true"): ("quantize", "bitsandbytes"),
    ("quantize", "dynamic_int8"): ("quantize", "bitsandbytes"),
    ("quantize", "smoothquant"): ("quantize", "bitsandbytes"),
}
_SPECULATIVE: Final[Mapping[str, str]] = {
    "speculative_model": "model",
    "speculative_draft_model": "model",
    "num_speculative_tokens": "num_speculative_tokens",
    "ngram_prompt_lookup_max": "prompt_lookup_max",
    "ngram_prompt_lookup_min": "prompt_lookup_min",
}
"""Options of old versions of vLLM, and their keys in `speculative_config` (vLLM 0.11, config/speculative.py)."""
_JSON: Final[Mapping[str, tuple[str, str]]] = {
    "guided_decoding_backend": ("structured_outputs_config", "backend")
}
_NUMBERS: Final = ("num_speculative_tokens", "ngram_prompt_lookup_max", "ngram_prompt_lookup_min")
_ROLLING: Final = "rolling_batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """`became` is None if the option is left out."""

    name: str
    value: str
    became: tuple[str, str] | None
    why: str


def moves(
    engine: str, pairs: Iterable[tuple[str, str]], version: str, *, keeps_rolling_batch: bool = False
) -> tuple[Move, ...]:
    """One for each option that changes. `version` is as in the table of options. `keeps_rolling_batch`: the recipe
    names the handler that runs it.
    """
    if not options.linted(engine):
        return ()
    given = dict(pairs)
    speculative = _speculative(engine, given, version)
    found = list(speculative)
    done = {move.name for move in speculative}
    for name, value in given.items():
        if name in done:
            continue
        if name == _ROLLING and engine == "vllm" and not keeps_rolling_batch and _is_asynchronous(version):
            why = "since 0.35, the server runs vLLM's asynchronous service, which has no rolling batch"
            found.append(Move(name=name, value=value, became=None, why=why))
        elif (move := _move(engine, name, value, version, given)) is not None:
            found.append(move)
    return tuple(found)


def _move(engine: str, name: str, value: str, version: str, given: Mapping[str, str]) -> Move | None:
    status = options.option_status(engine, name, version)
    if engine == "vllm" and (other := _by_value(engine, name, value, version)) is not None:
        return Move(name=name, value=value, became=other, why=f"vLLM does not know {name}: {value}")
    if status.state == "known":
        if not status.values or value.lower() in status.values:
            return None
        why = f"{value} is not one of {', '.join(status.values)}"
        return Move(name=name, value=value, became=_by_value(engine, name, value, version), why=why)
    why = {
        "unknown": f"unknown to {engine} on server {version}",
        "removed": f"removed in {status.edge}",
        "later": f"added in {status.edge}",
    }[status.state]
    became = _renamed(engine, name, value, version) or _by_value(engine, name, value, version)
    if became is not None and became[0] in given:
        return Move(name=name, value=value, became=None, why=f"{why}; {became[0]} is set already")
    return Move(name=name, value=value, became=became, why=why)


def _renamed(engine: str, name: str, value: str, version: str) -> tuple[str, str] | None:
    for other in _SAME.get(name, ()):
        if _accepts(engine, other, value, version):
            return other, value
    if name in _JSON:
        key, inner = _JSON[name]
        if _accepts(engine, key, value, version):
            return key, json.dumps({inner: value})
    return None


def _by_value(engine: str, name: str, value: str, version: str) -> tuple[str, str] | None:
    found = _BY_VALUE.get((name, value.lower()))
    return found if found is not None and _accepts(engine, found[0], found[1], version) else None


def _accepts(engine: str, name: str, value: str, version: str) -> bool:
    status = options.option_status(engine, name, version)
    return status.state == "known" and (not status.values or value.lower() in status.values)


def _speculative(engine: str, given: Mapping[str, str], version: str) -> tuple[Move, ...]:
    """Several options that became one, of JSON."""
    whole = "speculative_config"
    old = {name: value for name, value in given.items() if name in _SPECULATIVE}
    gone = [name for name in old if options.option_status(engine, name, version).state == "removed"]
    if not gone or whole in given or options.option_status(engine, whole, version).state != "known":
        return ()
    content = {
        _SPECULATIVE[name]: int(value) if name in _NUMBERS and value.isdecimal() else value
        for name, value in old.items()
    }
    if str(content.get("model", "")).strip("[]") == "ngram":
        content = {"method": "ngram", **{key: value for key, value in content.items() if key != "model"}}
    first, *others = old
    why = f"{', '.join(old)} became {whole}"
    return (
        Move(name=first, value=old[first], became=(whole, json.dumps(content)), why=why),
        *(Move(name=name, value=old[name], became=None, why=f"part of {whole}") for name in others),
    )


def _is_asynchronous(version: str) -> bool:
    number = version.partition("/")[0].split(".")
    return [int(part) for part in number[:2]] >= [0, 35]
