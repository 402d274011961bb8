"""The tensors of a model from its config.json alone, where no safetensors header can be read.

Names follow the layout of transformers' Llama, so that one rule for all models says what is cut (`partition`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.quantization import Quantization
from lmi_deploy.sizing.tensors import CannotTell, Tensor

_FLOAT: Final = "BF16"
_RELATIVE_BUCKETS: Final = 32


class _Writer:
    """Tensors of one model: which are quantised, and how they are called."""

    def __init__(self, shape: Architecture, quantization: Quantization | None) -> None:
        self.shape = shape
        self.quantization = quantization

    def linear(self, name: str, *size: int, expert: bool = False) -> Tensor:
        found = self.quantization
        if found is None or (found.experts_only and not expert) or any(part in name for part in found.kept):
            return Tensor(f"{name}.weight", _FLOAT, size)
        return Tensor(f"{name}.weight", _FLOAT, size, bits=found.bits)

    def plain(self, name: str, *size: int) -> Tensor:
        """Never quantised: embeddings, norms, routers."""
        return Tensor(f"{name}.weight", _FLOAT, size)


def tensors_of(shape: Architecture, quantization: Quantization | None) -> tuple[Tensor, ...]:
    """CannotTell if config.json does not determine the tensors."""
    if not shape.family.weights_from_config:
        raise CannotTell(
            f"the weights of {shape.model_type} cannot be derived from config.json; safetensors headers are needed"
        )
    if shape.has_vision:
        raise CannotTell(
            "config.json does not determine the vision or audio part; safetensors headers are needed"
        )
    return tuple(_tensors(shape, _Writer(shape, quantization)))


def _tensors(shape: Architecture, write: _Writer) -> Iterator[Tensor]:
    yield write.plain("model.embed_tokens", shape.vocab, shape.hidden)
    if not shape.tied and shape.family.kind != "encoder":
        yield write.plain("lm_head", shape.vocab, shape.hidden)
    if (
        shape.model_type in ("gpt2", "opt", "gpt_bigcode", "bert", "roberta", "xlm-roberta")
        and shape.positions
    ):
        yield write.plain("model.embed_positions", shape.positions, shape.hidden)
    if shape.family.kind == "encoder-decoder":
        for index in range(shape.number("encoder_layers") or shape.number("num_layers") or shape.layers):
            yield from _layer(shape, write, f"encoder.layers.{index}", index)
        yield write.plain("encoder.relative_attention_bias", _RELATIVE_BUCKETS, shape.heads)
    decoders = shape.number("num_decoder_layers") or shape.layers
    for index in range(decoders):
        prefix = f"model.layers.{index}"
        yield from _layer(shape, write, prefix, index)
        if shape.family.kind == "encoder-decoder":
            yield from _attention(shape, write, f"{prefix}.cross_attn")
    yield write.plain("model.norm", shape.hidden)


def _layer(shape: Architecture, write: _Writer, prefix: str, index: int) -> Iterator[Tensor]:
    yield write.plain(f"{prefix}.input_layernorm", shape.hidden)
    yield write.plain(f"{prefix}.post_attention_layernorm", shape.hidden)
    attention = _latent_attention if shape.latent else _attention
    yield from attention(shape, write, f"{prefix}.self_attn")
    if is_sparse(shape, index):
        yield from _experts(shape, write, f"{prefix}.mlp")
    else:
        dense = shape.number("intermediate_size_mlp") or shape.intermediate
        yield from _mlp(shape, write, f"{prefix}.mlp", dense)


def is_sparse(shape: Architecture, index: int) -> bool:
    """Whether a layer has experts in place of one MLP."""
    if not shape.experts or index < shape.number("first_k_dense_replace"):
        return False
    only_dense = shape.text.get("mlp_only_layers")
    if isinstance(only_dense, list) and index in only_dense:
        return False
    step = next(
        (
            n
            for key in ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq")
            if (n := shape.number(key))
        ),
        1,
    )
    return (index + 1) % step == 0


def _attention(shape: Architecture, write: _Writer, prefix: str) -> Iterator[Tensor]:
    query, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield write.linear(f"{prefix}.q_proj", query, shape.hidden)
    yield write.linear(f"{prefix}.k_proj", keys, shape.hidden)
    yield write.linear(f"{prefix}.v_proj", keys, shape.hidden)
    yield write.linear(f"{prefix}.o_proj", shape.hidden, query)


def _latent_attention(shape: Architecture, write: _Writer, prefix: str) -> Iterator[Tensor]:
    nope, rope = shape.number("qk_nope_head_dim"), shape.number("qk_rope_head_dim")
    value, rank = shape.number("v_head_dim"), shape.number("kv_lora_rank")
    if not (nope and rope and value):
        raise CannotTell(
            "config.json has kv_lora_rank without qk_nope_head_dim, qk_rope_head_dim and v_head_dim"
        )
    query, squeezed = shape.heads * (nope + rope), shape.number("q_lora_rank")
    if squeezed:
        yield write.linear(f"{prefix}.q_a_proj", squeezed, shape.hidden)
        yield write.linear(f"{prefix}.q_b_proj", query, squeezed)
    else:
        yield write.linear(f"{prefix}.q_proj", query, shape.hidden)
    yield write.linear(f"{prefix}.kv_a_proj_with_mqa", rank + rope, shape.hidden)
    yield write.linear(f"{prefix}.kv_b_proj", shape.heads * (nope + value), rank)
    yield write.linear(f"{prefix}.o_proj", shape.hidden, shape.heads * value)


def _mlp(shape: Architecture, write: _Writer, prefix: str, wide: int) -> Iterator[Tensor]:
    if shape.family.gated:
        yield write.linear(f"{prefix}.gate_proj", wide, shape.hidden)
    yield write.linear(f"{prefix}.up_proj", wide, shape.hidden)
    yield write.linear(f"{prefix}.down_proj", shape.hidden, wide)


def _experts(shape: Architecture, write: _Writer, prefix: str) -> Iterator[Tensor]:
    yield write.plain(f"{prefix}.gate", shape.experts, shape.hidden)
    wide, count = shape.moe_intermediate, shape.experts
    if shape.family.gated:
        yield write.linear(f"{prefix}.experts.gate_proj", count, wide, shape.hidden, expert=True)
    yield write.linear(f"{prefix}.experts.up_proj", count, wide, shape.hidden, expert=True)
    yield write.linear(f"{prefix}.experts.down_proj", count, shape.hidden, wide, expert=True)
    shared = shape.number("shared_expert_intermediate_size") or wide * shape.number("n_shared_experts")
    if shape.model_type.startswith("llama4"):
        shared = wide
    if shared:
        yield from _mlp(shape, write, f"{prefix}.shared_experts", shared)
