"""The cost of a deployment on SageMaker while it exists, and the user's limit on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved, Price
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.component_actions import CreateSharedEndpoint
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob
from lmi_deploy.domain.sagemaker.resource_settings import Placement
from lmi_deploy.domain.sagemaker.scaling_actions import SetInstanceCount
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.errors import Refused

UNKNOWN_PRICE: Final = "unknown: no source has the price"


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
    scaling, count = generation.serving.cloud.scaling, generation.serving.cloud.count
    least, most = (scaling.lowest, scaling.highest) if scaling else (count, count)
    return Cost(instance=generation.instance, least=least, most=most, price=price)


def cost_of(place: SageMakerPlace, placement: Placement, prices: Mapping[str, Price]) -> Cost | None:
    """None if the price is unknown."""
    price = prices.get(placement.instance)
    if price is None:
        return None
    scaling, count = place.scaling, place.count
    least, most = (scaling.lowest, scaling.highest) if scaling else (count, count)
    return Cost(instance=placement.instance, least=least, most=most, price=price)


def prices(inventory: CloudInventory) -> Mapping[str, Price]:
    """By instance type, as the plan shows them."""
    return inventory.prices


def most_hourly(spec: Spec, inventory: CloudInventory) -> float | None:
    """Of the instance type of the recipe that costs most; None if a price is unknown."""
    found = [cost_of(spec.cloud, placement, inventory.prices) for placement in spec.cloud.placements]
    return None if None in found else max(cost.high for cost in found if cost)


def require_affordable(
    spec: Spec, plan: Plan, observed: CloudObserved, inventory: CloudInventory, most: float
) -> None:
    """Refused if any instance type of the recipe may cost more, fully scaled, or its price is unknown."""
    starts = plan.has_action(CreateSharedEndpoint) or plan.has_action(SetInstanceCount)
    if spec.cloud.component is not None and not starts:
        return  # the shared endpoint runs already
    for placement in spec.cloud.placements:
        cost = cost_of(spec.cloud, placement, inventory.prices)
        if cost is None:
            raise Refused(
                f"--max-hourly {most:g}: the price of {placement.instance} is unknown",
                hint="omit --max-hourly, or choose an instance type with a known price",
            )
        if cost.high > most:
            raise Refused(
                f"--max-hourly {most:g}: {spec.name} may cost {cost.words}",
                hint=f"allow {format_price(cost.high, cost.price.currency)}, or use fewer or smaller instances",
            )
    if plan.has_action(RunTransferJob):
        _require_affordable_job(spec, observed, inventory, most)


def _require_affordable_job(
    spec: Spec, observed: CloudObserved, inventory: CloudInventory, most: float
) -> None:
    """During the deployment the current generation costs, too."""
    cost, serving = job_cost(spec.cloud, inventory), _serving_cost(observed, inventory)
    if cost is None:
        instance = spec.cloud.job.instance if spec.cloud.job else ""
        raise Refused(
            f"--max-hourly {most:g}: the price of the transfer job on {instance} is unknown",
            hint="omit --max-hourly, or choose a weights.job.instance_type with a known price",
        )
    total = cost.high + serving
    if total > most:
        extra = (
            f" in addition to {format_price(serving, cost.price.currency)} of the running endpoint"
            if serving
            else ""
        )
        raise Refused(
            f"--max-hourly {most:g}: the transfer job of {spec.name} costs {cost.words}{extra}",
            hint=f"allow {format_price(total, cost.price.currency)}, use fewer or smaller instances (weights.job), "
            "or send the weights from this machine (weights.via: stream)",
        )


def _serving_cost(observed: CloudObserved, inventory: CloudInventory) -> float:
    """Per hour of the endpoint as it is now; 0 if it costs nothing, or has an instance type that is not in the
    recipe.
    """
    if observed.endpoint is None or observed.serving is None:
        return 0.0
    current = observed.record.current if observed.record else None
    price = inventory.prices.get(current.instance) if current else None
    least = 0 if observed.endpoint.status == "InService" else 1
    return (
        max(observed.endpoint.count, observed.endpoint.desired_count, least) * price.hourly if price else 0.0
    )


def require_affordable_generation(generation: Generation, price: Price | None, most: float | None) -> str:
    """The hourly cost of a generation, in words; Refused if that may be above the limit, or is unknown."""
    component = generation.serving.cloud.component
    if component is not None:
        return f"nothing more: the shared endpoint {component.place.endpoint} runs already"
    cost = generation_cost(generation, price)
    if most is not None and cost is None:
        raise Refused(
            f"--max-hourly {most:g}: the price of {generation.instance or generation.server} is unknown",
            hint="omit --max-hourly",
        )
    if most is not None and cost is not None and cost.high > most:
        raise Refused(
            f"--max-hourly {most:g}: the generation {generation.server} may cost {cost.words}",
            hint=f"allow {format_price(cost.high, cost.price.currency)}, or choose another generation",
        )
    return cost.words if cost else UNKNOWN_PRICE
