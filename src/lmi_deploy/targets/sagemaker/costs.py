"""The cost of a deployment on SageMaker while it exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.observed import CloudInventory, Price
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.scaling_summary import scaling_of
from lmi_deploy.domain.target_spec import Placement, SageMakerPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Per hour: from `low` to `high`, which differ if the number of instances is scaled."""

    instance: str
    least: int
    most: int
    price: Price

    @property
    def low(self) -> float:
        return self.least * self.price.hourly

    @property
    def high(self) -> float:
        return self.most * self.price.hourly

    @property
    def brief(self) -> str:
        """Without its source."""
        return self.words.rpartition("; ")[0] + ")"

    @property
    def words(self) -> str:
        span = format_price(self.low, self.price.currency)
        if self.most != self.least:
            span += f" to {format_price(self.high, self.price.currency)}"
        count = f"{self.least}" if self.most == self.least else f"{self.least} to {self.most}"
        each = f" at {format_price(self.price.hourly, self.price.currency)}" if self.most > 1 else ""
        return f"{span} an hour ({count} x {self.instance}{each}; {self.price.source})"


def job_cost(place: SageMakerPlace, inventory: CloudInventory) -> Cost | None:
    """Cost of the transfer job; None if the price is unknown, or there is no job."""
    if place.job is None or inventory.job_price is None:
        return None
    count = place.job.count
    return Cost(instance=place.job.instance, least=count, most=count, price=inventory.job_price)


def generation_cost(generation: Generation, price: Price | None) -> Cost | None:
    """Of a recorded generation, as it was scaled."""
    if price is None:
        return None
    scaling, count = scaling_of(generation.summary), int(generation.summary.get("count", 1))
    least, most = (scaling.least, scaling.most) if scaling else (count, count)
    return Cost(instance=generation.instance, least=least, most=most, price=price)


def cost_of(place: SageMakerPlace, placement: Placement, prices: Mapping[str, Price]) -> Cost | None:
    """None if the price is unknown."""
    price = prices.get(placement.instance)
    if price is None:
        return None
    least, most = (place.scaling.least, place.scaling.most) if place.scaling else (place.count, place.count)
    return Cost(instance=placement.instance, least=least, most=most, price=price)
