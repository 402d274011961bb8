"""The cache of each layer for a sequence: all tokens, a window, a compressed form, or a state of fixed size.

Read from config.json as the vendors' model files do (vllm 0.11.0: model_executor/models, v1/kv_cache_interface.py;
transformers' `layer_types`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.tensors import CannotTell

CacheKind = Literal["full", "window", "latent", "state", "cross", "nothing"]
_TYPES: Final[dict[str, CacheKind]] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "linear_attention": "state",
    "mamba": "state",
    "mamba2": "state",
    "conv": "state",
    "recurrent": "state",
    "mlp": "nothing",
    "moe": "nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """Layers of one kind are equal, so that they can be counted."""

    kind: CacheKind
    kv_heads: int = 0
    head_dim: int = 0
    """Items of a key; a value has as many. For `latent` the compressed width."""
    window: int = 0
    chunked: bool = False
    state_items: int = 0
    """Kind `state`: items per sequence, independent of its length."""


def cache_layers(shape: Architecture) -> Counter[LayerCache]:
    """Number of layers of each kind. CannotTell if the config is not sufficient."""
    if shape.family.kind == "encoder":
        return Counter()
    if shape.latent:
        return Counter({LayerCache(kind="latent", kv_heads=1, head_dim=shape.latent): shape.layers})
    kinds = _kinds(shape)
    counted = Counter(_layer(shape, kind) for kind in kinds)
    if shape.family.kind == "encoder-decoder":
        counted[LayerCache(kind="cross", kv_heads=shape.kv_heads, head_dim=shape.head_dim)] = shape.layers
    return counted


def _layer(shape: Architecture, kind: CacheKind) -> LayerCache:
    match kind:
        case "state":
            return LayerCache(kind=kind, state_items=_state_items(shape))
        case "window":
            chunk = shape.number("attention_chunk_size")
            window = chunk or shape.number("sliding_window")
            if not window:
                raise CannotTell(
                    f"config.json has windowed layers ({shape.model_type}) and no sliding_window"
                )
            return LayerCache(
                kind=kind,
                kv_heads=shape.kv_heads,
                head_dim=shape.head_dim,
                window=window,
                chunked=bool(chunk),
            )
        case "nothing":
            return LayerCache(kind=kind)
        case _:
            # Gemma 4: the layers that look at everything have heads of their own size and number.
            heads = shape.number("num_global_key_value_heads") or shape.kv_heads
            size = shape.number("global_head_dim") or shape.head_dim
            return LayerCache(kind="full", kv_heads=heads, head_dim=size)


def _kinds(shape: Architecture) -> list[CacheKind]:
    written = shape.text.get("layer_types") or shape.text.get("layers_block_type")
    if isinstance(written, list) and written:
        unknown = {str(name) for name in written} - {*_TYPES}
        if unknown:
            raise CannotTell(f"config.json: layer_types has {', '.join(sorted(unknown))}, unknown to lmi")
        if len(written) < shape.layers:
            raise CannotTell(f"config.json: layer_types names {len(written)} of {shape.layers} layers")
        kinds = [_TYPES[str(name)] for name in written[: shape.layers]]
        return ["full" if kind == "window" and not _is_windowed(shape) else kind for kind in kinds]
    if shape.family.state:
        return _state_kinds(shape)
    return _window_kinds(shape)


def _is_windowed(shape: Architecture) -> bool:
    """Qwen sets a window and a separate field that disables it."""
    return shape.text.get("use_sliding_window") is not False


def _window_kinds(shape: Architecture) -> list[CacheKind]:
    rule, layers = shape.family.window, range(shape.layers)
    window = shape.number("sliding_window")
    every = shape.number("sliding_window_pattern") or shape.family.pattern
    match rule:
        case "all" if window and _is_windowed(shape):
            return ["window"] * shape.layers
        case "flag" if window and shape.text.get("use_sliding_window") is True:
            # The first max_window_layers look at everything (transformers, Qwen2Config).
            first = shape.number("max_window_layers")
            return ["full" if index < first else "window" for index in layers]
        case "alternate" if window:
            return ["window" if index % 2 == 0 else "full" for index in layers]
        case "pattern" if window and every > 1:
            return ["window" if (index + 1) % every else "full" for index in layers]
        case "chunk" if shape.number("attention_chunk_size"):
            return _chunk_kinds(shape, every)
        case _:
            return ["full"] * shape.layers


def _chunk_kinds(shape: Architecture, every: int) -> list[CacheKind]:
    """Llama 4: layers with rotary positions use only their chunk; `no_rope_layers` has 0 for the others."""
    written = shape.text.get("no_rope_layers")
    if isinstance(written, list) and len(written) == shape.layers:
        return ["window" if rope else "full" for rope in written]
    step = shape.number("no_rope_layer_interval") or every
    return ["window" if (index + 1) % step else "full" for index in range(shape.layers)]


def _state_kinds(shape: Architecture) -> list[CacheKind]:
    """The positions of attention layers among layers with a state."""
    layers = range(shape.layers)
    pattern = shape.text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:  # Nemotron-H: M mamba, * attention, - MLP
        return ["full" if letter == "*" else "state" if letter == "M" else "nothing" for letter in pattern]
    step = shape.number("full_attention_interval")
    if step:  # Qwen3-Next
        return ["state" if (index + 1) % step else "full" for index in layers]
    step = shape.number("attn_layer_period")
    if step:  # Jamba
        offset = shape.number("attn_layer_offset")
        return ["full" if index % step == offset else "state" for index in layers]
    attention = shape.text.get("attn_layer_indices") or shape.text.get("full_attn_idxs")
    if isinstance(attention, list):
        return ["full" if index in attention else "state" for index in layers]
    if shape.model_type.endswith("mamba") or shape.model_type == "mamba2":
        return ["state"] * shape.layers
    raise CannotTell(f"config.json does not say which layers of {shape.model_type} are attention")


def _state_items(shape: Architecture) -> int:
    """Convolution and recurrent state of one layer (vllm 0.11.0, layers/mamba/mamba_utils.py: the state shapes)."""
    heads = shape.number("linear_num_value_heads")
    if heads:  # gated delta net
        key = shape.number("linear_key_head_dim") * (shape.number("linear_num_key_heads") or heads)
        wide = shape.number("linear_value_head_dim")
        conv = (2 * key + heads * wide) * (shape.number("linear_conv_kernel_dim") - 1)
        return conv + heads * shape.number("linear_key_head_dim") * wide
    if shape.number("conv_L_cache"):  # LFM2: a short convolution only
        return shape.hidden * (shape.number("conv_L_cache") - 1)
    inner = shape.number("mamba_d_ssm") or _inner(shape)
    state = next(
        (n for key in ("state_size", "mamba_d_state", "ssm_state_size") if (n := shape.number(key))), 0
    )
    if not state or not inner:
        raise CannotTell(f"config.json does not give the state of {shape.model_type}'s layers")
    kernel = next((n for key in ("conv_kernel", "mamba_d_conv") if (n := shape.number(key))), 4)
    groups = next((n for key in ("n_groups", "mamba_n_groups") if (n := shape.number(key))), 1)
    return (inner + 2 * groups * state) * (kernel - 1) + inner * state


def _inner(shape: Architecture) -> int:
    heads = shape.number("mamba_n_heads") or shape.number("mamba_num_heads")
    size = shape.number("mamba_d_head") or shape.number("mamba_head_dim")
    expand = shape.number("mamba_expand") or shape.number("expand") or 2
    return heads * size or shape.number("intermediate_size") or expand * shape.hidden
