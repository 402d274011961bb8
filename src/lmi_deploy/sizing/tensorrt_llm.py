"""TensorRT-LLM: the engine's weights and buffers, and a share of what is then free as KV cache.

Source: the LMI guide of TensorRT-LLM (djl-serving, trt_llm_user_guide.md: max_num_tokens 16384,
kv_cache_free_gpu_mem_fraction 0.9), NVIDIA's page on memory (reference/memory.md: weights, activations,
KV cache from the free memory).
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.activations import forward_bytes, rope_bytes
from lmi_deploy.sizing.dtypes import cache_item_bytes, float_bytes
from lmi_deploy.sizing.kv_cache_layers import cache_layers
from lmi_deploy.sizing.kv_cache_size import CacheLayout
from lmi_deploy.sizing.memory_demand import Demand, SizingCase, device_weights

_TOKENS: Final = 16384
_FREE_SHARE: Final = 0.9
_RUNTIME: Final = GIB // 2
"""CUDA context and the runtime's own buffers."""
_LOGIT_BYTES: Final = 4 + 4
"""Logits are float32; the sampler keeps them and their probabilities."""
_SEQUENCES: Final = 32
_BLOCK: Final = 64


def demand(subject: SizingCase) -> Demand:
    shape, request = subject.shape, subject.request
    item = float_bytes(request, shape)
    weights = device_weights(subject, item=item)
    tokens = request.whole("max_num_tokens") or _TOKENS
    sequences = request.whole("max_num_seqs") or _SEQUENCES
    share = request.number("kv_cache_free_gpu_mem_fraction", most=1) or _FREE_SHARE
    parts = {
        "weights": weights.total + rope_bytes(shape, item),
        "activations": forward_bytes(shape, tokens, subject.degree, item=item)
        + sequences * shape.vocab * _LOGIT_BYTES,
        "runtime": _RUNTIME,
    }
    free = subject.devices.memory - sum(parts.values())
    held_back = int(free * (1 - share)) if free > 0 else 0
    return Demand(
        budget=subject.devices.memory,
        weights=weights,
        parts={**parts, **({"held back": held_back} if held_back else {})},
        layout=CacheLayout(
            layers=cache_layers(shape),
            degree=subject.degree,
            item_bytes=cache_item_bytes(request, shape),
            block=request.whole("tokens_per_block") or _BLOCK,
            windows=False,
            pipeline=subject.pipeline,
        ),
    )
