"""The memory that an engine needs on the fullest device, line by line, and how much of the device it may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.devices import Devices
from lmi_deploy.sizing.kv_cache_size import CacheLayout
from lmi_deploy.sizing.quantization import Quantization, requested_bits
from lmi_deploy.sizing.sizing_request import SizingRequest
from lmi_deploy.sizing.tensors import Tensor
from lmi_deploy.sizing.weights_per_device import DeviceWeights, Partition, weights_on_device


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingCase:
    """A model, the request about it and the devices that it is to run on."""

    shape: Architecture
    tensors: Sequence[Tensor]
    quantization: Quantization | None
    request: SizingRequest
    devices: Devices
    degree: int
    context: int
    pipeline: int = 1
    pickles: Sequence[int] = ()
    """Sizes of weights in Python's pickle format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Bytes on one device. `budget` is what the engine may use of it, everything in `parts` but the cache comes off
    it, and what is left holds the KV cache."""

    budget: int
    weights: DeviceWeights
    parts: Mapping[str, int]
    layout: CacheLayout
    reserve: int = 0
    """Bytes outside of the budget that must be free, too (CUDA context, graphs)."""
    outside: int = 0
    """Bytes of the device that are not in the budget."""
    load_peak: int = 0
    """Bytes of weights while the engine loads them, if that is more than afterwards."""
    grows_with_context: bool = False
    """Whether buffers depend on the length of a sequence, and not on a step of fixed size."""
    cache_limit: int | None = None
    """The engine limits the cache to this, even if more memory is left."""

    @property
    def cache_memory(self) -> int:
        """Bytes of one device left for the KV cache; negative if the rest does not fit."""
        left = self.budget - sum(self.parts.values())
        return left if self.cache_limit is None else min(left, self.cache_limit)


def device_weights(subject: SizingCase, *, item: int) -> DeviceWeights:
    """Linear layers in the requested quantization, if the checkpoint has none; all else in `item` bytes."""
    requested = requested_bits(subject.request.text("quantize"))
    cut = Partition(
        tensor_parallel=subject.degree,
        pipeline_parallel=subject.pipeline,
        float_bits=8 * item,
        linear_bits=requested if subject.quantization is None else None,
    )
    return weights_on_device(subject.tensors, subject.shape, cut, subject.quantization)
