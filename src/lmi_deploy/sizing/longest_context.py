"""The longest sequences that a model has room for, and an instance type if its fit is unknown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.catalog import instances
from lmi_deploy.domain.number_text import gib_text
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.sizing.devices import Devices, instance_devices
from lmi_deploy.sizing.fit_assessment import Checkpoint, assess, total_size_or_none
from lmi_deploy.sizing.sizing_request import SizingRequest
from lmi_deploy.sizing.tensors import CannotTell

LEAST_CONTEXT: Final = 1024
STEP: Final = 256
USUAL_REGION: Final = "us-east-1"
"""Its table of prices is the longest."""
_HEADROOM: Final = 1.3
"""Of the weights' size, where nothing else is known of a model: room for the KV cache and activations."""
_USABLE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceBySize:
    """A type with devices for so many bytes of weights, if the fit is unknown."""

    instance: str
    degree: int
    why: str


def longest_fitting(checkpoint: Checkpoint, request: SizingRequest, devices: Devices, *, most: int) -> int:
    """The longest sequence up to `most` with which the model still fits and is not tight; 0 if there is none."""

    def works(context: int) -> bool:
        return assess(checkpoint, replace(request, context=context), devices, limits=False).verdict == "fits"

    if works(most):
        return most
    context = most // STEP * STEP
    while context >= LEAST_CONTEXT and not works(context):
        context = context * 15 // 16 // STEP * STEP
    return context if context >= LEAST_CONTEXT else 0


def instance_by_size(
    size: int, prices: RegionPrices, *, least_capability: float | None
) -> InstanceBySize | None:
    """By the weights alone: the cheapest priced type whose devices hold them, of at least this compute capability; None
    if no type does.
    """
    found = []
    for name in instances.names():
        price = prices.hourly.get(name)
        try:
            devices = instance_devices(name)
        except CannotTell:
            continue
        if (
            price is None
            or devices.kind != "gpu"
            or (devices.compute_capability or 0) < (least_capability or 0)
        ):
            continue
        if size * _HEADROOM <= devices.memory * devices.count * _USABLE:
            found.append((price.hourly, name, devices))
    if not found:
        return None
    _, name, devices = min(found, key=lambda one: one[:2])
    why = (
        f"{gib_text(size)} x {_HEADROOM} = {gib_text(size * _HEADROOM)}, on {devices.count} x "
        f"{devices.name} with {gib_text(devices.memory)} each, {_USABLE:.0%} of it usable"
    )
    return InstanceBySize(instance=name, degree=devices.count, why=why)


def size_of(checkpoint: Checkpoint) -> int:
    """Bytes of the weights; 0 if unknown."""
    return 0 if checkpoint.trouble else total_size_or_none(checkpoint) or 0
