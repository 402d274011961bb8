"""vLLM on a machine without accelerators: weights in RAM, and a KV cache of a fixed size.

Source: vllm 0.11.0, platforms/cpu.py (VLLM_CPU_KVCACHE_SPACE: GiB, 4 if it is not set).
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.activations import LOGIT_BYTES, forward_bytes
from lmi_deploy.sizing.dtypes import float_bytes
from lmi_deploy.sizing.memory_demand import Demand, SizingCase
from lmi_deploy.sizing.vllm import LMI_SEQUENCES, layout
from lmi_deploy.sizing.weights_per_device import Partition, weights_on_device

_CACHE: Final = 4 * GIB
_RUNTIME: Final = 2 * GIB
"""Two processes with torch in them: 0.9 GiB the worker, as much the engine core (measured with vLLM 0.10.2)."""
_TOKENS: Final = 2048


def demand(subject: SizingCase) -> Demand:
    shape, request = subject.shape, subject.request
    item = float_bytes(request, shape)
    cut = Partition(tensor_parallel=subject.degree, float_bits=8 * item)
    weights = weights_on_device(subject.tensors, shape, cut, subject.quantization)
    tokens = request.whole("max_num_batched_tokens") or _TOKENS
    sequences = request.whole("max_num_seqs") or LMI_SEQUENCES
    space = request.number("vllm_cpu_kvcache_space") or 0
    return Demand(
        budget=subject.devices.memory,
        weights=weights,
        parts={
            "weights": weights.total,
            "activations": forward_bytes(shape, tokens, 1, item=item) + sequences * shape.vocab * LOGIT_BYTES,
            "runtime": _RUNTIME,
        },
        layout=layout(subject, tokens),
        cache_limit=int(space * GIB) or _CACHE,
    )
