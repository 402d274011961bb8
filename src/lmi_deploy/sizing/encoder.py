"""Encoders without a cache: Text Embeddings Inference on one GPU or CPU, and graphs that Neuron compiled for Inferentia
1.

Sources: huggingface/text-embeddings-inference, read on 2026-11-23. router/src/main.rs: max_batch_tokens 16384, no
default of max_batch_requests. router/src/lib.rs: float32 in builds for a CPU (MKL, Accelerate), else float16; a limit
of the backend replaces max_batch_requests. backends/candle/src/lib.rs: at most 4 texts at once on a CPU; flash
attention only in float16. An ONNX model would run in another backend, 8 texts at once: lmi transfers none.
aws-neuron-sdk, Inf1 architecture: 8 GB for the four cores of a chip; a graph is loaded with its weights, and each copy
of the model has its own.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.activations import forward_bytes
from lmi_deploy.sizing.dtypes import float_bytes
from lmi_deploy.sizing.kv_cache_size import CacheLayout
from lmi_deploy.sizing.memory_demand import Demand, SizingCase
from lmi_deploy.sizing.tensors import CannotTell
from lmi_deploy.sizing.weights_per_device import Partition, weights_on_device

_NO_CACHE: Final = CacheLayout(layers=Counter(), degree=1, item_bytes=2)
_BATCH_TOKENS: Final = 16384
_CPU_TEXTS: Final = 4
_HALF: Final = 2
_SINGLE: Final = 4
_DEVICE_RUNTIME: Final = GIB // 2
"""The CUDA context and the buffers of its libraries; on a CPU the server itself."""
_NEURON_RUNTIME: Final = GIB // 4
"""The runtime's own buffers on one core."""


def tei_demand(subject: SizingCase) -> Demand:
    """Weights, and the widest layer of one batch."""
    shape, request = subject.shape, subject.request
    on_cpu = subject.devices.kind == "cpu"
    single = request.text("dtype").lower() == "float32" or (on_cpu and not request.text("dtype"))
    item = _SINGLE if single else _HALF
    tokens = request.whole("max_batch_tokens") or _BATCH_TOKENS
    weights = weights_on_device(subject.tensors, shape, Partition(float_bits=8 * item), subject.quantization)
    limit = _CPU_TEXTS if on_cpu else request.whole("max_batch_requests")
    if limit:
        tokens = min(tokens, limit * subject.context)
    # On a CPU and in float32, Candle stores the scores of all pairs of tokens; flash attention never does.
    texts = max(1, tokens // max(1, subject.context))
    scores = texts * shape.heads * subject.context**2 * item if on_cpu or single else 0
    return Demand(
        budget=subject.devices.memory,
        weights=weights,
        parts={
            "weights": weights.total,
            "activations": forward_bytes(shape, tokens, 1, item=item) + scores,
            "runtime": _DEVICE_RUNTIME,
        },
        layout=_NO_CACHE,
    )


def neuron_demand(subject: SizingCase) -> Demand:
    """On one NeuronCore: a graph holds all weights of a copy, over as many cores as it was compiled for."""
    shape, request = subject.shape, subject.request
    cores = subject.devices.count * subject.devices.cores
    workers = request.whole("workers") or 1
    if workers * subject.degree > cores:
        raise CannotTell(
            f"{workers} copies of {subject.degree} cores need more than the {cores} of the instance"
        )
    item = float_bytes(request, shape, keeps_float32=True)
    cut = Partition(pipeline_parallel=subject.degree, float_bits=8 * item)
    weights = weights_on_device(subject.tensors, shape, cut, subject.quantization)
    batch = request.sequences or 1
    return Demand(
        budget=subject.devices.memory // subject.devices.cores,
        weights=weights,
        parts={
            "weights": weights.total,
            "activations": batch * forward_bytes(shape, subject.context, 1, item=item),
            "runtime": _NEURON_RUNTIME,
        },
        layout=_NO_CACHE,
        grows_with_context=True,
    )
