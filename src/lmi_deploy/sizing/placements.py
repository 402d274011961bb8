"""The instance types that can run a model, cheapest first."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.catalog import instances, prices
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.assessment import Checkpoint, Fit, assess
from lmi_deploy.sizing.devices import instance_devices
from lmi_deploy.sizing.request import Request
from lmi_deploy.sizing.tensors import CannotTell


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """An instance type that can run the model; a price is None if unknown."""

    instance: str
    fit: Fit
    usd_per_hour: float | None

    @property
    def usd_per_cache_gib(self) -> float | None:
        """An hour of one GiB of KV cache, over all devices that share the model."""
        cache = self.fit.cache * self.fit.degree / GIB
        return self.usd_per_hour / cache if self.usd_per_hour is not None and cache > 0 else None


def placements(checkpoint: Checkpoint, request: Request, region: str) -> tuple[Placement, ...]:
    """Those with a known price first, by price; CannotTell if no type can be judged."""
    found: list[Placement] = []
    unknown: Fit | None = None
    for name in instances.names():
        try:
            devices = instance_devices(name)
        except CannotTell:
            continue
        if (devices.kind == "neuron") != (request.engine == "neuronx") or devices.kind == "cpu":
            continue
        fit = assess(checkpoint, request, devices, limits=False)
        if fit.verdict == "unknown":
            unknown = fit
        elif fit.verdict != "does-not-fit":
            fit = assess(checkpoint, request, devices)
            price = prices.price(name, region)
            found.append(Placement(instance=name, fit=fit, usd_per_hour=price.hourly if price else None))
    if not found and unknown is not None:
        raise CannotTell(unknown.reason)
    return tuple(sorted(found, key=_order))


def _order(one: Placement) -> tuple[bool, float, str]:
    return one.usd_per_hour is None, one.usd_per_hour or 0, one.instance
