"""DeepSpeed and FasterTransformer: each device has a part of every layer, and its memory grows with the requests.

Source: djl_python/deepspeed.py 0.27 and fastertransformer.py 0.24 (number types), transformers (a cache that grows).
Workspaces of their kernels are not known. Held to two published deployments: GPT-J 6B in fp16 on one T4, FLAN-T5-XXL in
fp32 on four A10G.
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.activations import forward_bytes
from lmi_deploy.sizing.dtypes import float_bytes
from lmi_deploy.sizing.kv_cache_layers import cache_layers
from lmi_deploy.sizing.kv_cache_size import CacheLayout
from lmi_deploy.sizing.memory_demand import Demand, SizingCase, device_weights

_RUNTIME: Final = GIB // 2
"""CUDA context and the runtime's own buffers on each device."""
_LOGIT_BYTES: Final = 4
_FLOAT32: Final = 4
"""FasterTransformer's default."""


def demand(subject: SizingCase) -> Demand:
    shape, request = subject.shape, subject.request
    by_default = request.engine == "fastertransformer" and not request.text("dtype")
    item = _FLOAT32 if by_default else float_bytes(request, shape)
    weights = device_weights(subject, item=item)
    sequences = request.whole("batch_size") or request.sequences or 1
    return Demand(
        budget=subject.devices.memory,
        weights=weights,
        parts={
            "weights": weights.total,
            "activations": forward_bytes(shape, subject.context, subject.degree, item=item)
            + sequences * shape.vocab * _LOGIT_BYTES,
            "runtime": _RUNTIME,
        },
        layout=CacheLayout(
            layers=cache_layers(shape),
            degree=subject.degree,
            item_bytes=item,
            block=1,
            windows=False,
            pipeline=subject.pipeline,
        ),
        grows_with_context=True,
    )
