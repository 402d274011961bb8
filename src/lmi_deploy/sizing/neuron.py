"""NeuronCores: a model is compiled for one batch, length and degree, and all of its memory is fixed then.

Source: AWS Neuron SDK (architecture pages; transformers-neuronx developer guide: weights and KV cache below 16 GB
a core), optimum-neuron (modeling/gqa.py: how key/value heads are spread).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.activations import forward_bytes
from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.dtypes import cache_item_bytes, float_bytes
from lmi_deploy.sizing.kv_cache_layers import LayerCache, cache_layers
from lmi_deploy.sizing.kv_cache_size import CacheLayout
from lmi_deploy.sizing.memory_demand import Demand, SizingCase
from lmi_deploy.sizing.weights_per_device import Partition, weights_on_device

_RUNTIME: Final = GIB
"""Code, scratch pads and the tables of the buckets of one core."""


def demand(subject: SizingCase) -> Demand:
    """On one core: the degree counts cores, not chips."""
    shape, request = subject.shape, subject.request
    item = float_bytes(request, shape)
    cut = Partition(
        tensor_parallel=subject.degree,
        float_bits=8
        if request.is_on("load_in_8bit") or request.text("quantize") == "static_int8"
        else 8 * item,
    )
    weights = weights_on_device(subject.tensors, shape, cut, subject.quantization)
    return Demand(
        budget=subject.devices.memory // subject.devices.cores,
        weights=weights,
        parts={
            "weights": weights.total,
            "activations": forward_bytes(shape, subject.context, subject.degree, item=item),
            "runtime": _RUNTIME,
        },
        layout=CacheLayout(
            layers=spread_heads(shape, subject.degree),
            degree=subject.degree,
            item_bytes=cache_item_bytes(request, shape),
            block=1,
            windows=False,
        ),
        grows_with_context=True,
    )


def spread_heads(shape: Architecture, degree: int) -> Counter[LayerCache]:
    """Key/value heads as they are cached: repeated up to the degree, or one for each query head."""
    heads = shape.kv_heads
    if heads % degree:
        heads = degree if degree % heads == 0 else -(-shape.heads // degree) * degree
    return Counter({replace(layer, kv_heads=heads): count for layer, count in cache_layers(shape).items()})
