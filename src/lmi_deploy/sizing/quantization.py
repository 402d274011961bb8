"""Bits per weight, from `quantization_config` or from the engine's option for quantisation at load time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.sizing.tensors import CannotTell

_GROUP: Final = 128
_SCALE_BITS: Final = 16
_BLOCK: Final = 128 * 128
_ALIASES: Final[dict[str, str]] = {
    "awq_marlin": "awq",
    "gptq_marlin": "gptq",
    "modelopt_fp4": "nvfp4",
    "bitsandbytes4": "bitsandbytes",
    "bitsandbytes8": "int8",
    "static_int8": "int8",
    "smoothquant": "int8",
    "int8_sq": "int8",
    "int4_awq": "awq",
    "fp8_e4m3": "fp8",
    "experts_int8": "int8",
    "ptpc_fp8": "fp8",
    "gpt_oss_mxfp4": "mxfp4",
}
_NOTHING: Final = ("", "none", "null", "auto", "disable")
ON_THE_FLY: Final[dict[str, float]] = {
    # vllm 0.11.0, quantization/bitsandbytes.py: 4-bit items, one 32-bit absmax for 64 of them.
    "bitsandbytes": 4 + 32 / 64,
    "fp8": 8,
    "int8": 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """`bits` of one weight of a quantised layer with its share of the scales."""

    method: str
    bits: float
    kept: tuple[str, ...] = ()
    """Parts of the names of layers that stay as they are (`modules_to_not_convert`)."""
    experts_only: bool = False
    """mxfp4 of gpt-oss, int4 of Kimi-K2: attention, embeddings and routers stay as they are."""


def stored_quantization(table: Mapping[str, Any]) -> Quantization | None:
    """The quantisation of the checkpoint in config.json; None: not quantised. CannotTell for an unknown method."""
    found = table.get("quantization_config") or table.get("compression_config")
    if not isinstance(found, Mapping):
        return None
    method = str(found.get("quant_method") or found.get("quant_algo") or "").lower()
    match _ALIASES.get(method, method):
        case "awq" | "gptq" | "auto-round":
            return Quantization(method=method, bits=_grouped(found))
        case "bitsandbytes" if found.get("load_in_8bit") or found.get("_load_in_8bit"):
            return Quantization(method=method, bits=8)
        case "bitsandbytes":
            return Quantization(method=method, bits=ON_THE_FLY["bitsandbytes"])
        case "fp8" | "fbgemm_fp8":
            return Quantization(method=method, bits=8 + 32 / _BLOCK, kept=_kept(found))
        case "mxfp4":
            # OCP Microscaling: 4-bit items, one 8-bit scale for 32 of them.
            return Quantization(method=method, bits=4 + 8 / 32, experts_only=True)
        case "compressed-tensors":
            ignored = found.get("ignore")
            attention = isinstance(ignored, list) and any("attn" in str(name) for name in ignored)
            return Quantization(method=method, bits=_compressed(found), experts_only=attention)
        case "modelopt" | "nvfp4":
            four = "fp4" in str(found.get("quant_algo", method)).lower()
            return Quantization(method=method, bits=4 + 8 / 16 if four else 8)
        case _:
            raise CannotTell(
                f"config.json: lmi does not know the quant_method {method or 'of quantization_config'}"
            )


def requested_bits(method: str | None) -> float | None:
    """Bits of a linear weight that the engine quantises itself while it loads; None if it does not."""
    name = (method or "").lower()
    if name in _NOTHING:
        return None
    return ON_THE_FLY.get(_ALIASES.get(name, name))


def _grouped(found: Mapping[str, Any]) -> float:
    bits, group = _number(found, "bits", "w_bit") or 4, _number(found, "group_size", "q_group_size")
    group = group if group and group > 0 else _GROUP
    return bits + (_SCALE_BITS + bits) / group


def _compressed(found: Mapping[str, Any]) -> float:
    groups = found.get("config_groups")
    widths: list[float] = []
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if isinstance(weights, Mapping):
            bits, size = _number(weights, "num_bits"), _number(weights, "group_size")
            if bits:
                widths.append(bits + (_SCALE_BITS / size if size and size > 0 else 0))
    if not widths:
        raise CannotTell("config.json: quantization_config has no config_groups with num_bits")
    return max(widths)


def _kept(found: Mapping[str, Any]) -> tuple[str, ...]:
    names = found.get("modules_to_not_convert") or found.get("ignored_layers")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _number(table: Mapping[str, Any], *keys: str) -> int | None:
    value = next((table[key] for key in keys if key in table), None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
