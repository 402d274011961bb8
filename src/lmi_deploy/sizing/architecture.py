"""The shape of a model, read from its config.json. A missing or invalid value raises CannotTell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.sizing.model_families import FAMILIES, NESTED, NESTED_DEFAULTS, VISION, Family
from lmi_deploy.sizing.tensors import CannotTell

_LIMIT: Final = 2**40
_MOST_LAYERS: Final = 10_000
"""More than any model has; each layer is examined separately, so a damaged number would take too long."""
SIZE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num"),
    "head_dim": ("head_dim", "d_kv", "kv_channels", "attention_head_dim"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "intermediate": (
        "intermediate_size",
        "n_inner",
        "d_ff",
        "ffn_dim",
        "ffn_hidden_size",
        "decoder_ffn_dim",
        "hidden_dim",
    ),
    "positions": (
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "n_ctx",
        "max_sequence_length",
        "max_target_positions",
    ),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"),
    "experts_per_token": ("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"),
}
_CORE: Final = ("layers", "hidden", "heads", "vocab")
_LONG_ROPE: Final = ("su", "longrope", "llama3", "default", "mrope", "proportional")
"""Kinds of rope_scaling whose factor vLLM does not multiply into the length (vllm 0.11.0, config/model.py,
_get_and_verify_max_len)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Sizes of the language part; `text` is its own table of config.json, `whole` all of it."""

    model_type: str
    family: Family
    text: Mapping[str, Any]
    whole: Mapping[str, Any]
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    intermediate: int
    positions: int | None
    """The longest sequence that the model supports."""
    experts: int
    experts_per_token: int
    moe_intermediate: int
    tied: bool
    dtype: str | None

    @property
    def latent(self) -> int:
        """Width of a compressed key/value (MLA) with its rotary part; 0 where keys and values are whole."""
        rank = self.number("kv_lora_rank")
        return rank + (self.number("qk_rope_head_dim") or 64) if rank else 0

    @property
    def has_vision(self) -> bool:
        return any(isinstance(self.whole.get(key), Mapping) for key in VISION)

    def number(self, key: str) -> int:
        """A whole number of the language part; 0 if it is missing."""
        return _whole(self.text, key) or 0


def read_architecture(table: Mapping[str, Any]) -> Architecture:
    """CannotTell names the missing field of config.json, or the unknown model_type."""
    if not table:
        raise CannotTell("config.json is missing")
    text = _language_part(table)
    model_type = text.get("model_type") or table.get("model_type")
    if not isinstance(model_type, str):
        raise CannotTell("config.json has no model_type")
    family = FAMILIES.get(model_type)
    if family is None:
        raise CannotTell(f"lmi does not know how model_type {model_type} uses memory")
    values = {name: _first(text, keys) for name, keys in SIZE_KEYS.items()}
    lacking = [SIZE_KEYS[name][0] for name in _CORE if not values[name]]
    if lacking:
        raise CannotTell(f"config.json does not have {', '.join(lacking)}")
    return _architecture(model_type, family, text, table, values)


def _architecture(
    model_type: str,
    family: Family,
    text: Mapping[str, Any],
    full: Mapping[str, Any],
    values: Mapping[str, int | None],
) -> Architecture:
    hidden, heads = values["hidden"] or 0, values["heads"] or 0
    intermediate = values["intermediate"] or 4 * hidden
    experts = values["experts"] or 0
    own = _whole(text, "moe_intermediate_size") or _whole(text, "expert_ffn_hidden_size")
    tied = text.get("tie_word_embeddings", full.get("tie_word_embeddings"))
    dtype = next(
        (table.get(key) for table in (text, full) for key in ("dtype", "torch_dtype") if table.get(key)),
        None,
    )
    return Architecture(
        model_type=model_type,
        family=family,
        text=text,
        whole=full,
        layers=values["layers"] or 0,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(model_type, family, text, values["kv_heads"], heads),
        head_dim=values["head_dim"] or max(1, hidden // heads),
        vocab=values["vocab"] or 0,
        intermediate=intermediate,
        positions=_positions(text, values["positions"]),
        experts=experts,
        experts_per_token=values["experts_per_token"] or (2 if experts else 0),
        moe_intermediate=own or intermediate,
        tied=tied if isinstance(tied, bool) else family.tied,
        dtype=dtype if isinstance(dtype, str) else None,
    )


def _kv_heads(
    model_type: str, family: Family, text: Mapping[str, Any], written: int | None, heads: int
) -> int:
    if model_type in ("falcon", "RefinedWeb", "RefinedWebModel"):
        # HF's FalconConfig: num_kv_heads counts in the new decoder only; the old one has one head, or all of them.
        says_nothing = "new_decoder_architecture" not in text and "multi_query" not in text
        if text.get("new_decoder_architecture") or (says_nothing and written):
            return written or heads
        return 1 if text.get("multi_query", True) else heads
    if model_type == "gpt_bigcode" and not text.get("multi_query", True):
        return heads
    return written or family.kv_heads or heads


def _positions(text: Mapping[str, Any], written: int | None) -> int | None:
    """Including the factor of rope_scaling, as vLLM derives it."""
    scaling = text.get("rope_scaling") or text.get("rope_parameters")
    if written is None or not isinstance(scaling, Mapping):
        return written
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    factor = scaling.get("factor")
    if kind in _LONG_ROPE or isinstance(factor, bool) or not isinstance(factor, (int, float)) or factor < 1:
        return written
    original = _whole(scaling, "original_max_position_embeddings") if kind == "yarn" else None
    return max(written, int(original * factor)) if original else int(written * factor)


def _language_part(table: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in NESTED:
        inner = table.get(key)
        if isinstance(inner, Mapping):
            if any(name in inner for name in NESTED):
                return _language_part(inner)
            return with_omitted_sizes(inner)
    return table


def with_omitted_sizes(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of config.json with the sizes that it leaves to the defaults of transformers."""
    return {**NESTED_DEFAULTS.get(str(part.get("model_type")), {}), **part}


def _first(table: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    return next((value for key in keys if (value := _whole(table, key)) is not None), None)


def _whole(table: Mapping[str, Any], key: str) -> int | None:
    value = table.get(key)
    if isinstance(value, list) and value and all(item == value[0] for item in value):
        value = value[0]
    if value is None:
        return None
    limit = _MOST_LAYERS if "layer" in key else _LIMIT
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        raise CannotTell(f"config.json: {key} is {value!r}")
    return value or None
