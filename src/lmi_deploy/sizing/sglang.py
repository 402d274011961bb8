"""SGLang on GPUs: `mem_fraction_static` of the free memory holds weights and KV cache; the rest must hold activations
and CUDA graphs.

Source: sglang 0.5.20, arg_groups/memory_hook.py `handle_gpu_memory_settings` and `reserve_for_graph_mb` (the default of
the fraction), arg_groups/cuda_graph_hook.py (sizes of graphs), mem_cache/kv_cache_configurator.py
`_profile_available_bytes` (what is left for the cache). Its figures are SGLang's own estimates; no published log was
compared with them.
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.byte_units import GIB, MIB
from lmi_deploy.sizing.activations import forward_bytes
from lmi_deploy.sizing.dtypes import cache_item_bytes, float_bytes
from lmi_deploy.sizing.kv_cache_layers import cache_layers
from lmi_deploy.sizing.kv_cache_size import CacheLayout
from lmi_deploy.sizing.memory_demand import Demand, SizingCase, device_weights
from lmi_deploy.sizing.tensors import CannotTell

_CONTEXT: Final = int(0.36 * GIB)
"""The CUDA context, which is there before SGLang looks at what is free (as measured with vLLM: sizing/vllm.py)."""
_DEFAULTS: Final = (
    # Less than so many GiB: tokens of one prefill step, and the largest decode graph below and from degree 4 on.
    (20, 2048, 8, 8),
    (35, 4096, 48, 160),
    (60, 4096, 32, 160),
    (160, 8192, 256, 512),
)
_LARGEST: Final = (16384, 512, 512)
_FLOOR_FROM: Final = 60 * GIB
"""On larger GPUs at least _FLOOR is reserved."""
_FLOOR: Final = 10 * GIB
_LEAST_TOKENS: Final = 2048
_PREFILL_STEPS: Final = (
    *range(4, 33, 4),
    *range(48, 257, 16),
    *range(288, 513, 32),
    *range(576, 1025, 64),
    *range(1280, 4097, 256),
)


def demand(subject: SizingCase) -> Demand:
    """CannotTell for an invalid option, and on a CPU."""
    shape, request, devices = subject.shape, subject.request, subject.devices
    if devices.kind == "cpu":
        raise CannotTell("lmi cannot judge engine sglang on a CPU; AWS's images are for GPUs")
    item = float_bytes(request, shape)
    tokens, graphs = _step(subject)
    free = devices.memory - _CONTEXT
    share = request.number("mem_fraction_static", most=1)
    budget = int(free * share) if share else max(0, free - _reserved(subject, tokens, graphs))
    weights = device_weights(subject, item=item)
    fixed = request.whole("max_total_tokens")
    layout = CacheLayout(
        layers=cache_layers(shape),
        degree=subject.degree,
        item_bytes=cache_item_bytes(request, shape),
        block=request.whole("page_size") or 1,
        windows=True,
        pipeline=subject.pipeline,
    )
    return Demand(
        budget=budget,
        weights=weights,
        parts={"weights": weights.total},
        layout=layout,
        reserve=_CONTEXT + forward_bytes(shape, tokens, subject.degree, item=item) + graphs,
        outside=devices.memory - budget,
        cache_limit=None if fixed is None else int(fixed * layout.token_bytes),
    )


def _step(subject: SizingCase) -> tuple[int, int]:
    """Tokens of one prefill step (chunked_prefill_size), and the bytes of the CUDA graphs."""
    request, devices = subject.request, subject.devices
    defaults = next((row[1:] for row in _DEFAULTS if devices.memory < row[0] * GIB), _LARGEST)
    tokens = int(request.number("chunked_prefill_size", least=-1) or defaults[0])
    if tokens < 0:
        tokens = request.whole("max_prefill_tokens") or 16384  # no pieces: schedule.py
    most = request.whole("cuda_graph_max_bs_decode") or request.whole("cuda_graph_max_bs")
    most = most or defaults[1 if subject.degree < 4 else 2]
    if request.is_on("disable_cuda_graph"):
        return tokens, 0
    steps = len([size for size in (*_PREFILL_STEPS, *range(4608, tokens + 1, 512)) if size <= tokens])
    prefill = 1536 if subject.shape.latent else steps * 8
    return tokens, (most * 2 + prefill) * MIB


def _reserved(subject: SizingCase, tokens: int, graphs: int) -> int:
    """What SGLang itself leaves free without mem_fraction_static."""
    parallel = subject.degree * subject.pipeline * GIB // 8
    reserved = 512 * MIB + int(max(tokens, _LEAST_TOKENS) * 1.5) * MIB + parallel + graphs
    return max(reserved, _FLOOR) if subject.devices.memory > _FLOOR_FROM else reserved
