"""The instance types that can run a model, cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from lmi_deploy.catalog import instances
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.price_table import RegionPrices, reads_the_list
from lmi_deploy.sizing.devices import Devices, instance_devices
from lmi_deploy.sizing.fit_assessment import Checkpoint, Fit, assess
from lmi_deploy.sizing.sizing_request import INFERENTIA_1, ON_NEURON, SizingRequest
from lmi_deploy.sizing.tensors import CannotTell


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingInstance:
    """An instance type that can run the model; a price is None if unknown."""

    instance: str
    fit: Fit
    usd_per_hour: float | None

    @property
    def usd_per_cache_gib(self) -> float | None:
        """An hour of one GiB of KV cache, over all devices that share the model."""
        cache = self.fit.cache * self.fit.degree / GIB
        return self.usd_per_hour / cache if self.usd_per_hour is not None and cache > 0 else None


def fitting_instances(
    checkpoint: Checkpoint, request: SizingRequest, prices: RegionPrices
) -> tuple[FittingInstance, ...]:
    """Those with a known price first, by price; CannotTell if no type can be judged."""
    return tuple(
        replace(one, fit=assess(checkpoint, request, one.fit.devices))
        for one in _holders(checkpoint, request, prices)
    )


def cheapest_fitting(
    checkpoint: Checkpoint,
    request: SizingRequest,
    prices: RegionPrices,
    *,
    accepts: Callable[[str], bool] = lambda instance: True,
) -> FittingInstance | None:
    """Of the types with a known price the cheapest that fits, else the cheapest that is tight; without such a type one
    with an unknown price; None if no type holds the model. CannotTell if no type can be judged.

    `accepts` says of a type whether it may be taken.
    """
    tight: FittingInstance | None = None
    for one in _holders(checkpoint, request, prices):
        if tight is not None and one.usd_per_hour is None and tight.usd_per_hour is not None:
            return tight
        if not accepts(one.instance):
            continue
        if one.fit.verdict == "fits":
            return one
        tight = tight or one
    return tight


def unpriced_fitting(checkpoint: Checkpoint, request: SizingRequest, prices: RegionPrices) -> str:
    """How many types that hold the model have no known price, although the region may have them, and how to get it;
    empty if none.
    """
    found = [offered(one.instance, prices) for one in _holders(checkpoint, request, prices)]
    count = found.count("unknown")
    return unpriced(count, prices.region) if count else ""


def offered(name: str, prices: RegionPrices) -> Literal["yes", "no", "unknown"]:
    """Whether SageMaker has a type in the region."""
    if name in prices.hourly:
        return "yes"
    elsewhere = instances.ec2_regions(name)
    return "no" if prices.complete or (elsewhere and prices.region not in elsewhere) else "unknown"


def unpriced(count: int, region: str) -> str:
    """That so many types are not compared by price."""
    types = counted(count, "instance type")
    return f"no price is known of {types} that {region} may have: {reads_the_list(region)}"


def _holders(
    checkpoint: Checkpoint, request: SizingRequest, prices: RegionPrices
) -> Iterator[FittingInstance]:
    """In the order of their prices, each judged when it is needed. Types with the same devices are judged once."""
    judged: dict[tuple[str, int, int], Fit] = {}
    unknown, found = "", False
    for usd, name, devices in _types(request, prices):
        key = (devices.name, devices.count, devices.memory)
        if key not in judged:
            judged[key] = assess(checkpoint, request, devices, limits=False)
        fit = replace(judged[key], devices=devices)
        if fit.verdict == "unknown":
            unknown = fit.reason
        elif fit.verdict != "does-not-fit":
            found = True
            yield FittingInstance(instance=name, fit=fit, usd_per_hour=usd)
    if unknown and not found:
        raise CannotTell(unknown)


def _types(request: SizingRequest, prices: RegionPrices) -> list[tuple[float | None, str, Devices]]:
    """The types whose devices the engine runs on, those with a known price first."""
    found: list[tuple[float | None, str, Devices]] = []
    for name in instances.names():
        try:
            devices = instance_devices(name)
        except CannotTell:
            continue
        if _runs_on(request, devices):
            price = prices.hourly.get(name)
            found.append((price.hourly if price else None, name, devices))
    return sorted(found, key=lambda one: (one[0] is None, one[0] or 0, one[1]))


def _runs_on(request: SizingRequest, devices: Devices) -> bool:
    if request.engine in ON_NEURON:
        return devices.kind == "neuron" and (devices.name == INFERENTIA_1) == (request.engine == "neuron")
    return devices.kind == "gpu"
