"""Weights on one device: what an engine cuts over tensor- and pipeline-parallel devices, and what it repeats.

Rules of vllm 0.11.0 (model_executor/layers/linear.py, vocab_parallel_embedding.py, fused_moe/layer.py; the same in
0.23.0): linear layers and experts are cut evenly; key and value projections are repeated where there are fewer heads
than devices; vocabularies are padded to a multiple of 64, then cut; norms, biases, routers, position tables and the
compressing projections of MLA are on every device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Final, Literal

from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.quantization import Quantization
from lmi_deploy.sizing.tensors import FLOATS, Tensor

Role = Literal["vocabulary", "replicated", "keys", "fused", "cut"]
VOCABULARY_PADDING: Final = 64
_LINEAR: Final = ("keys", "fused", "cut")
_MXFP4_TILE: Final = (128, 256)
"""Expert width and hidden size are padded to multiples of these (vllm 0.11.0, quantization/mxfp4.py, Marlin)."""
_VOCABULARY = re.compile(
    r"(^|\.)(embed_tokens|wte|word_embeddings|embed_in|lm_head|embed_out|tok_embeddings|shared|output)\.weight$"
)
_OUTPUT = re.compile(r"(^|\.)(lm_head|embed_out|output)\.")
_REPLICATED = re.compile(
    r"(q_a_proj|kv_a_proj|kv_a_proj_with_mqa|position|wpe|relative_attention_bias|patch_embed|router|norm|indexer"
    r"|shared_expert_gate|(mlp|block_sparse_moe|feed_forward|moe)\.gate\.(weight|e_score))"
)
_KEYS_VALUES = re.compile(r"(^|\.)(k_proj|v_proj|wk|wv|key|value|k|v)\.")
_FUSED = re.compile(r"(^|\.)(qkv_proj|query_key_value|c_attn|Wqkv|W_pack|qkv|wqkv)\.")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)\.")
_BUFFERS = re.compile(r"(rotary_emb\.inv_freq|\.masked_bias|attn\.bias|attention\.bias)$")
_SENSES = re.compile(r"vision|visual|audio")
_SCALE = re.compile(r"scale|zero|g_idx|qz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Over how many devices a model is split, and the resulting size of the weights."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    float_bits: int = 16
    """Of weights that are not quantised, as the engine holds them."""
    linear_bits: float | None = None
    """Of linear layers that the engine quantises while it loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWeights:
    """Bytes on the fullest device."""

    total: int
    embeddings: int
    replicated: int
    """The part of `total` that every device has in full."""
    before_quantization: int
    """The size of the linear layers until the engine has quantised them; equal to `total` if it does not."""


def weights_on_device(
    tensors: Iterable[Tensor], shape: Architecture, cut: Partition, quantization: Quantization | None
) -> DeviceWeights:
    """Of the device that carries most: of a pipeline the one with the output matrix."""
    ends: list[int] = []
    body = raw = replicated = 0.0
    for tensor in tensors:
        if not is_loaded(tensor, shape):
            continue
        role = role_of(tensor.name, len(tensor.shape))
        items = _items(tensor, role, shape, cut, quantization)
        if role == "vocabulary":
            ends.append(int(items * _bits(tensor, role, cut.float_bits) / 8))
            continue
        bits = _bits(tensor, role, cut.float_bits)
        raw += items * bits / 8
        if (
            cut.linear_bits is not None
            and role in _LINEAR
            and tensor.dtype in FLOATS
            and not _SCALE.search(tensor.name)
        ):
            bits = cut.linear_bits
        body += items * bits / 8
        replicated += items * bits / 8 if role == "replicated" else 0
    # vllm 0.11.0, distributed/utils.py get_pp_indices: stages differ by one layer at most.
    largest = ceil(shape.layers / cut.pipeline_parallel) / shape.layers
    outer = sum(ends) if cut.pipeline_parallel == 1 or shape.tied else max(ends, default=0)
    return DeviceWeights(
        total=int(body * largest) + outer,
        embeddings=outer,
        replicated=int(replicated * largest) if cut.tensor_parallel > 1 else 0,
        before_quantization=int(raw * largest) + outer,
    )


def is_loaded(tensor: Tensor, shape: Architecture) -> bool:
    """Whether an engine loads it: not a second copy of tied embeddings, no buffers, no layers for speculation."""
    if tensor.name.startswith("mtp.") or _BUFFERS.search(tensor.name):
        return False
    if shape.tied and _OUTPUT.search(tensor.name):
        return False
    # DeepSeek's checkpoints carry their multi-token-prediction layer behind the last one.
    found = _LAYER.search(tensor.name) if shape.latent else None
    return not (found and int(found[1]) >= shape.layers and not _SENSES.search(tensor.name))


@lru_cache(maxsize=2**17)
def role_of(name: str, dimensions: int) -> Role:
    """How a tensor is spread, from the name of its layer."""
    if _VOCABULARY.search(name) and dimensions == 2:
        return "vocabulary"
    if dimensions < 2 or _REPLICATED.search(name):
        return "replicated"
    if _KEYS_VALUES.search(name):
        return "keys"
    return "fused" if _FUSED.search(name) else "cut"


def _items(
    tensor: Tensor, role: Role, shape: Architecture, cut: Partition, quantization: Quantization | None
) -> float:
    """Items of a tensor that one device has."""
    degree = cut.tensor_parallel
    keys = 1 / min(degree, shape.kv_heads)
    match role:
        case "vocabulary":
            rows, columns = tensor.shape
            return (
                _padded(rows, VOCABULARY_PADDING * (1 if rows % degree == 0 else degree)) * columns / degree
            )
        case "replicated":
            return tensor.items
        case "keys":
            return tensor.items * keys
        case "fused":
            both = shape.heads + 2 * shape.kv_heads
            return tensor.items * (shape.heads / degree + 2 * shape.kv_heads * keys) / both
        case "cut":
            padded = (
                quantization is not None and quantization.method == "mxfp4" and ".experts." in tensor.name
            )
            return tensor.items / degree * (_mxfp4_padding(shape, degree) if padded else 1)


def _bits(tensor: Tensor, role: Role, float_bits: int) -> float:
    """Of one item on the device; scales and items that are not floats stay as they are stored."""
    if tensor.bits is not None:
        return tensor.bits
    if tensor.dtype not in FLOATS or (role != "vocabulary" and _SCALE.search(tensor.name)):
        return tensor.item_bits
    return float_bits


def _padded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _mxfp4_padding(shape: Architecture, degree: int) -> float:
    wide, tile = shape.moe_intermediate / degree, _MXFP4_TILE
    grown = _padded(ceil(wide), tile[0]) / wide
    return grown * _padded(shape.hidden, tile[1]) / shape.hidden
