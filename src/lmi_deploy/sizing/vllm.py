"""vLLM on GPUs: what it subtracts from `gpu_memory_utilization` before the rest becomes KV cache, and what must fit
beside it.

Source: vllm 0.11.0 to 0.26.0 (PyPI), v1/worker/gpu_worker.py `init_device` and `determine_available_memory`;
0.6.3.post1, worker/worker.py `determine_num_available_blocks`; engine/arg_utils.py of each for the defaults.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.activations import (
    LOGIT_BYTES,
    PLAIN_LOGIT_BYTES,
    SORTED_LOGIT_BYTES,
    forward_bytes,
    rope_bytes,
    sampler_bytes,
)
from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.dtypes import cache_item_bytes, float_bytes
from lmi_deploy.sizing.kv_cache_layers import LayerCache, cache_layers
from lmi_deploy.sizing.kv_cache_size import CacheLayout
from lmi_deploy.sizing.memory_demand import Demand, SizingCase, device_weights
from lmi_deploy.sizing.sizing_request import SizingRequest
from lmi_deploy.sizing.vllm_model_runner import (
    GRAPHS_COUNTED,
    graph_bytes,
    is_second_runner,
    sampler_state_bytes,
)

LMI_SEQUENCES: Final = 32
"""LMI passes max_rolling_batch_size as max_num_seqs; its default (djl_python, properties_manager/properties.py)."""
_FIRST_V1: Final = (0, 8)
_TRITON_SINCE: Final = (0, 17)
"""From here on top-p does not sort (v1/sample/ops/topk_topp_sampler.py)."""
_NETWORK_FIRST: Final = (0, 11)
"""From here on vLLM measures what is free after NCCL is there, so that NCCL is outside of the budget (0.11.1,
gpu_worker.py `init_device`)."""
_LATENT_SINCE: Final = (0, 7)
"""Before, keys and values of MLA models were cached whole, as they are later with VLLM_MLA_DISABLE=1."""
_WINDOWS_SINCE: Final = (0, 9)
"""Before, a model with both windows and full layers cached all tokens in all of them."""
_CONTEXT: Final = int(0.15 * GIB)
"""Memory outside of torch on one device after the first measurement: logs of vLLM 0.11 print 0.13 GiB."""
_COLLECTIVES: Final = int(0.4 * GIB)
"""More of it with several devices, for the all-reduce: logs print 0.25 and 0.54 GiB in all."""
_DRIVER: Final = int(0.36 * GIB)
"""The CUDA context itself, before the first measurement: logs print 0.36 GiB (A10G) to 0.61 (H100), which the margin
covers."""
_NETWORK: Final = int(0.4 * GIB)
"""NCCL before the first measurement, with several devices: a log prints 0.93 GiB between two H100 with NVLink, which
the margin covers."""
_LORA_RANK: Final = 16
_LARGE: Final = 70 * GIB


def demand(subject: SizingCase) -> Demand:
    """CannotTell for an invalid option."""
    shape, request, devices = subject.shape, subject.request, subject.devices
    item = float_bytes(request, shape)
    share = _utilization(subject)
    budget = int(devices.memory * share)
    weights = device_weights(subject, item=item)
    sequences, tokens = batch(subject)
    second = is_second_runner(subject)
    graphs = graph_bytes(subject, sequences, tokens)
    counted = request.vllm >= GRAPHS_COUNTED and not second
    several = subject.degree * subject.pipeline > 1
    logit = PLAIN_LOGIT_BYTES if second else _logit(subject)
    parts = {
        "weights": weights.total + rope_bytes(shape, item),
        "activations": max(
            forward_bytes(shape, tokens, subject.degree, item=item),
            sampler_bytes(shape, sequences, tokens, logit=logit, item=item),
        ),
        "runtime": _CONTEXT + (_COLLECTIVES if several else 0),
        "graphs": graphs if counted else 0,
        "lora": _lora(subject, item),
        "vision": vision_bytes(shape, tokens, item),
    }
    outside = devices.memory - budget
    fixed = request.number("kv_cache_memory_bytes")
    return Demand(
        budget=budget,
        weights=weights,
        parts={name: size for name, size in parts.items() if size},
        layout=layout(subject, tokens),
        reserve=_DRIVER
        + (_NETWORK if several and request.vllm >= _NETWORK_FIRST else 0)
        + (0 if counted else graphs)
        + (sampler_state_bytes(subject, sequences) if second else 0),
        outside=outside,
        # Weights are converted to fp8 after all of them are loaded (0.11.0, quantization/fp8.py
        # process_weights_after_loading).
        load_peak=weights.before_quantization if request.text("quantize").lower() == "fp8" else 0,
        cache_limit=None if fixed is None else int(fixed),
        grows_with_context=request.vllm < _FIRST_V1
        or request.text("enable_chunked_prefill").lower() == "false",
    )


def batch(subject: SizingCase) -> tuple[int, int]:
    """Sequences at once, and tokens of one step: max_num_seqs and max_num_batched_tokens."""
    request = subject.request
    large = subject.devices.memory >= _LARGE and "A100" not in subject.devices.name
    default = 1024 if large and request.vllm >= _FIRST_V1 else 256
    sequences = request.whole("max_num_seqs") or (LMI_SEQUENCES if request.lmi else default)
    tokens = request.whole("max_num_batched_tokens")
    if tokens is None:
        tokens = _batched_tokens(subject, large=large)
    return sequences, max(tokens, sequences)


def _batched_tokens(subject: SizingCase, *, large: bool) -> int:
    request = subject.request
    off = request.text("enable_chunked_prefill").lower() == "false"
    if request.vllm >= _FIRST_V1:
        return max(subject.context, 2048) if off else 8192 if large else 2048
    # V0 processes whole prompts; since 0.6 only if they are at most 32 Ki long (0.6.3.post1, arg_utils.py
    # create_engine_config; 0.5.3.post1 has the rule, 0.5.3 and before are not known to).
    long = subject.context > 32 * 1024 and request.vllm >= (0, 6) and not off
    chunked = request.is_on("enable_chunked_prefill") or long
    return (2048 if request.vllm >= (0, 7) else 512) if chunked else max(subject.context, 2048)


def caches_compressed_keys(request: SizingRequest) -> bool:
    """Whether MLA models store compressed keys; else every head stores whole ones."""
    return request.vllm >= _LATENT_SINCE and not request.is_on("vllm_mla_disable")


def layout(subject: SizingCase, tokens: int) -> CacheLayout:
    """This version's layout of the cache."""
    shape, request = subject.shape, subject.request
    layers = cache_layers(shape)
    if shape.latent and not caches_compressed_keys(request):
        # 0.6.3.post1, models/deepseek_v2.py; from 0.7 on config/model.py get_head_size
        own = shape.number("qk_rope_head_dim") + shape.number("qk_nope_head_dim")
        head_dim = own or 256 if request.vllm >= _LATENT_SINCE else 256
        layers = Counter({LayerCache(kind="full", kv_heads=shape.heads, head_dim=head_dim): shape.layers})
    hybrid = request.vllm >= _WINDOWS_SINCE and not request.is_on("disable_hybrid_kv_cache_manager")
    return CacheLayout(
        layers=layers,
        degree=subject.degree,
        item_bytes=cache_item_bytes(request, shape),
        block=request.whole("block_size") or 16,
        windows=hybrid or (len(layers) == 1 and request.vllm >= _FIRST_V1),
        # Disabled because of a latency regression (0.11.0, config:
        # VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE).
        chunks=False,
        batch_tokens=tokens,
        pipeline=subject.pipeline,
    )


def _utilization(subject: SizingCase) -> float:
    default = 0.92 if subject.request.vllm >= GRAPHS_COUNTED else 0.9
    found = subject.request.number("gpu_memory_utilization", most=1)
    if found == 0:
        found = subject.request.number("gpu_memory_utilization", least=0.01, most=1)
    return default if found is None else found


def _logit(subject: SizingCase) -> int:
    return LOGIT_BYTES if subject.request.vllm >= _TRITON_SINCE else SORTED_LOGIT_BYTES


def _lora(subject: SizingCase, item: int) -> int:
    """Slots for `max_loras` adapters on every linear layer (vllm 0.11.0, lora/layers: both halves, at the greatest
    rank; the half that is not cut is on every device)."""
    request, shape = subject.request, subject.shape
    if not request.is_on("enable_lora"):
        return 0
    slots, rank = request.whole("max_loras") or 1, request.whole("max_lora_rank") or _LORA_RANK
    attention = 4 * shape.hidden + (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim // subject.degree
    inner = shape.intermediate // subject.degree
    mlp = 3 * shape.hidden + 3 * inner
    return slots * rank * shape.layers * (attention + mlp) * item


def vision_bytes(shape: Architecture, tokens: int, item: int) -> int:
    """For a vision model: its encoder runs over the largest image, and one step of embeddings is stored."""
    if not shape.has_vision:
        return 0
    found = shape.whole.get("vision_config") or shape.whole.get("visual") or {}
    wide = found.get("intermediate_size") or 4 * (found.get("hidden_size") or 1024)
    inner = wide if isinstance(wide, int) else 4096
    # Patches are merged four to one before they become tokens (Qwen-VL's spatial_merge_size 2).
    return item * (4 * tokens * 3 * inner + 2 * tokens * shape.hidden)
