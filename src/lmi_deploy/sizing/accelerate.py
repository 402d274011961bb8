"""transformers with accelerate's `device_map`: layers are placed on the devices one after the other, none is split.

Source: accelerate 1.x (utils/modeling.py `get_balanced_memory`: room for the largest layer is left on each device),
transformers 4.5x (cache_utils.py DynamicCache: the cache grows on the device of its layer, windows included).
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.activations import forward_bytes
from lmi_deploy.sizing.dtypes import cache_item_bytes, float_bytes
from lmi_deploy.sizing.kv_cache_layers import cache_layers
from lmi_deploy.sizing.kv_cache_size import CacheLayout
from lmi_deploy.sizing.memory_demand import Demand, SizingCase
from lmi_deploy.sizing.quantization import requested_bits
from lmi_deploy.sizing.weights_per_device import Partition, weights_on_device

_RUNTIME: Final = GIB // 2
"""CUDA context and torch's own buffers on each device."""
_LOGIT_BYTES: Final = 4
_CPU_RUNTIME: Final = 2 * GIB
"""Python, torch and the front end on a machine without accelerators: 0.9 GiB a worker and as much again for buffers
(measured with LMI's accelerate handler on two cores)."""


def demand(subject: SizingCase) -> Demand:
    shape, request = subject.shape, subject.request
    on_cpu = subject.devices.kind == "cpu"
    item = float_bytes(request, shape, keeps_float32=True)
    stages = 1 if on_cpu else subject.degree
    # The whole model, then its share: layers stay whole, so that the largest one decides what is lost.
    cut = Partition(
        pipeline_parallel=stages,
        float_bits=8 * item,
        linear_bits=requested_bits(request.text("quantize") or _load_in(subject))
        if subject.quantization is None
        else None,
    )
    weights = weights_on_device(subject.tensors, shape, cut, subject.quantization)
    tokens = subject.context
    sequences = request.whole("max_num_seqs") or request.whole("batch_size") or subject.request.sequences or 1
    return Demand(
        budget=subject.devices.memory,
        weights=weights,
        parts={
            "weights": weights.total,
            # The logits of the whole prompt, as the model's own class makes them, of the last position since 4.45.
            "activations": forward_bytes(shape, tokens, 1, item=item)
            + sequences * shape.vocab * _LOGIT_BYTES,
            "runtime": _CPU_RUNTIME if on_cpu else _RUNTIME,
        },
        layout=CacheLayout(
            layers=cache_layers(shape),
            degree=1,
            item_bytes=cache_item_bytes(request, shape) if request.text("kv_cache_dtype") else item,
            block=1,
            windows=True,
            pipeline=stages,
        ),
        grows_with_context=True,
    )


def _load_in(subject: SizingCase) -> str:
    request = subject.request
    if request.is_on("load_in_4bit"):
        return "bitsandbytes"
    return "int8" if request.is_on("load_in_8bit") or request.text("dtype") == "int8" else ""
