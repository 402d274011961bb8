"""Changes that make it fit, cheapest first: each is tried, and only working ones are listed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.catalog import instances
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.sizing.device_support import BFLOAT16
from lmi_deploy.sizing.devices import Devices, instance_devices
from lmi_deploy.sizing.fit_assessment import Checkpoint, Fit, Verdict, assess
from lmi_deploy.sizing.longest_context import LEAST_CONTEXT, STEP, longest_fitting
from lmi_deploy.sizing.sizing_request import SizingRequest
from lmi_deploy.sizing.tensors import CannotTell

_SHARE: Final = "gpu_memory_utilization"
_SHARES: Final = ("0.95", "0.9", "0.85")
"""Of the device for the engine: more for the KV cache, or more for what must fit beside it."""
_FP8_CAPABILITY: Final = 8.9
"""From Ada on GPUs have fp8 (NVIDIA's compute capabilities)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change: of an option, of the degree or of the instance type."""

    key: str
    value: str
    what: str
    usd_per_hour: float | None = None


def remedies(
    checkpoint: Checkpoint, request: SizingRequest, devices: Devices | None, fit: Fit, prices: RegionPrices
) -> tuple[Remedy, ...]:
    """Empty if it fits, or if the verdict is unknown. A larger machine is one that has a price."""
    if devices is None or fit.verdict in ("fits", "unknown"):
        return ()
    return tuple(_free(checkpoint, request, devices, fit)) + tuple(
        _larger(checkpoint, request, devices, prices)
    )


def _free(checkpoint: Checkpoint, request: SizingRequest, devices: Devices, fit: Fit) -> Iterator[Remedy]:
    """Changes that cost nothing by the hour."""

    def works(changed: SizingRequest, *enough: Verdict) -> bool:
        return assess(checkpoint, changed, devices, limits=False).verdict in (enough or ("fits",))

    if request.text("dtype").lower() in BFLOAT16:
        changed = replace(request, options={**request.options, "dtype": "fp16"})
        if fit.verdict == "does-not-fit" and works(changed, "fits", "tight"):
            yield Remedy(key="dtype", value="fp16", what="fp16 in place of bf16: dtype fp16")

    context = longest_fitting(checkpoint, request, devices, most=fit.max_context // STEP * STEP)
    if LEAST_CONTEXT <= context < fit.context:
        yield Remedy(
            key="max_model_len", value=str(context), what=f"shorter sequences: max_model_len {context}"
        )
    if (request.sequences or 1) > 1 and 0 < fit.max_sequences < (request.sequences or 1):
        number = str(fit.max_sequences)
        yield Remedy(key="sequences", value=number, what=f"fewer sequences at once: {number}")
    found = [
        Remedy(key=key, value=value, what=what)
        for key, value, what in _options(request, devices)
        if (key == _SHARE or key not in request.options)
        and works(replace(request, options={**request.options, key: value}))
    ]
    yield from [one for one in found if one.key == _SHARE][:1]
    yield from [one for one in found if one.key != _SHARE]
    for degree in range(fit.degree + 1, devices.count * devices.cores + 1):
        if works(replace(request, degree=degree)):
            what = f"more devices of the same instance: tensor_parallel_degree {degree}"
            yield Remedy(key="tensor_parallel_degree", value=str(degree), what=what)
            break


def _options(request: SizingRequest, devices: Devices) -> Iterator[tuple[str, str, str]]:
    if request.engine != "vllm" or devices.kind != "gpu":
        return
    for value in _SHARES:
        yield _SHARE, value, f"a different share of the device for the engine: {_SHARE} {value}"
    yield "enforce_eager", "true", "no CUDA graphs (slower): enforce_eager true"
    modern = (devices.compute_capability or 0) >= _FP8_CAPABILITY
    if modern:
        yield "kv_cache_dtype", "fp8", "half the cache per token: kv_cache_dtype fp8"
        yield "quantize", "fp8", "weights in 8 bits, quantized while loading: quantize fp8"
    yield "quantize", "bitsandbytes", "weights in 4 bits, quantized while loading: quantize bitsandbytes"


def _larger(
    checkpoint: Checkpoint, request: SizingRequest, devices: Devices, prices: RegionPrices
) -> Iterator[Remedy]:
    """The cheapest instance type with a known price that fits, if the question was about an instance."""
    if not devices.instance:
        return
    free = replace(request, degree=None)
    found: list[tuple[float, str, int]] = []
    for name in instances.names():
        price = prices.hourly.get(name)
        if price is None or name == devices.instance:
            continue
        try:
            existing = instance_devices(name)
        except CannotTell:
            continue
        if (
            existing.kind == devices.kind
            and (fit := assess(checkpoint, free, existing, limits=False)).verdict == "fits"
        ):
            found.append((price.hourly, name, fit.degree))
    if found:
        usd, name, degree = min(found)
        what = f"a larger machine: {name} with degree {degree}, {usd:.2f} USD per hour in {prices.region}"
        yield Remedy(key="instance_type", value=name, what=what, usd_per_hour=usd)
