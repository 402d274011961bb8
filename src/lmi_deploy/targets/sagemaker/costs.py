"""The cost of a deployment on SageMaker while it exists, and the user's limit on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved, Price
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.price_table import reads_the_list
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.component_actions import CreateSharedEndpoint
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob
from lmi_deploy.domain.sagemaker.resource_settings import Placement
from lmi_deploy.domain.sagemaker.scaling_actions import SetInstanceCount
from lmi_deploy.domain.target_spec import JobPlace, SageMakerPlace
from lmi_deploy.errors import OverBudget
from lmi_deploy.targets.sagemaker.plan.storage_actions import transfer_job_place

UNKNOWN_PRICE: Final = "unknown: no source has the price"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Per hour: from `low` to `high`, which differ if the instances are scaled, or SageMaker chooses their type."""

    instance: str
    """With instance pools: all types, in words."""
    least: int
    most: int
    price: Price
    """Of an instance; with instance pools, of the cheapest type."""
    dearest: Price | None = None
    """With instance pools, of the type that costs most."""

    @property
    def low(self) -> float:
        return self.least * self.price.hourly

    @property
    def high(self) -> float:
        return self.most * (self.dearest or self.price).hourly

    @property
    def brief(self) -> str:
        """Without its source."""
        return self.words.rpartition("; ")[0] + ")"

    @property
    def words(self) -> str:
        span = _span(self.low, self.high, self.price.currency)
        count = f"{self.least}" if self.most == self.least else f"{self.least} to {self.most}"
        one = _span(self.price.hourly, (self.dearest or self.price).hourly, self.price.currency)
        each = f" at {one}" if self.most > 1 else ""
        return f"{span} an hour ({count} x {self.instance}{each}; {self.price.source})"


def _span(low: float, high: float, currency: str) -> str:
    highest = f" to {format_price(high, currency)}" if high != low else ""
    return f"{format_price(low, currency)}{highest}"


def job_cost(job: JobPlace | None, inventory: CloudInventory) -> Cost | None:
    """Cost of a transfer job; None if the price is unknown, or there is no job."""
    if job is None or inventory.job_price is None:
        return None
    return Cost(instance=job.instance, least=job.count, most=job.count, price=inventory.job_price)


def generation_costs(
    generation: Generation, hourly: Callable[[str], Price | None]
) -> tuple[Cost, ...] | None:
    """Of a recorded generation, as it was scaled, and of its candidate; None if a price is unknown."""
    scaling, count = generation.serving.cloud.scaling, generation.serving.cloud.count
    least, most = (scaling.lowest, scaling.highest) if scaling else (count, count)
    parts = [(generation.types, least, most)]
    if candidate := generation.serving.candidate:
        own = candidate.serving.cloud.count
        parts.append(((candidate.instance,), own, own))
    names = {name for types, _, _ in parts for name in types}
    known = {name: price for name in names if (price := hourly(name))}
    return _all_known(_cost(types, least, most, known) for types, least, most in parts)


def _all_known(costs: Iterable[Cost | None]) -> tuple[Cost, ...] | None:
    given = tuple(costs)
    known = tuple(cost for cost in given if cost is not None)
    return known if len(known) == len(given) else None


def _cost(types: Sequence[str], least: int, most: int, prices: Mapping[str, Price]) -> Cost | None:
    """Of instances that are each of one of these types; None if a price is unknown."""
    known = sorted((prices[name] for name in types if name in prices), key=lambda price: price.hourly)
    if not known or len(known) < len(types):
        return None
    dearest = known[-1] if len(known) > 1 else None
    return Cost(instance=" or ".join(types), least=least, most=most, price=known[0], dearest=dearest)


def version_costs(spec: Spec, placement: Placement, prices: Mapping[str, Price]) -> tuple[Cost, ...] | None:
    """Of the version that serves, and of its candidate; None if a price is unknown."""
    found = [cost_of(spec.cloud, placement, prices)]
    if spec.candidate is not None:
        second = spec.candidate.spec.cloud
        found.append(cost_of(second, second.placements[0], prices))
    return _all_known(found)


def cost_words(spec: Spec, placement: Placement, prices: Mapping[str, Price]) -> str:
    """In all, and of each version."""
    found = version_costs(spec, placement, prices)
    if found:
        return words_of(found)
    unknown = [name for name in instances_of(spec, placement) if name not in prices]
    several = spec.candidate or placement.instance_pools
    return f"{UNKNOWN_PRICE} of {' and '.join(unknown)}" if several else UNKNOWN_PRICE


def words_of(costs: Sequence[Cost]) -> str:
    """Of the version that serves, maybe with its candidate."""
    main, *others = costs
    if not others:
        return main.words
    low, high = sum(cost.low for cost in costs), sum(cost.high for cost in costs)
    span = _span(low, high, main.price.currency)
    return f"{span} an hour: {main.words}, and its candidate {others[0].words}"


def candidate_figures(spec: Spec) -> Pairs:
    """Its instances, and its share of the requests."""
    if spec.candidate is None:
        return ()
    place = spec.candidate.spec.cloud
    return (("candidate", f"{place.count} x {place.placements[0].instance}, {spec.candidate.words}"),)


def cost_of(place: SageMakerPlace, placement: Placement, prices: Mapping[str, Price]) -> Cost | None:
    """None if the price is unknown."""
    return _cost(placement.types, *place.instances, prices)


def prices(inventory: CloudInventory) -> Mapping[str, Price]:
    """By instance type, as the plan shows them."""
    return inventory.prices


def known_prices(
    spec: Spec, running: Iterable[str], hourly: Callable[[str], Price | None]
) -> dict[str, Price]:
    """Of all instance types of the recipe, and of those that run now, as far as they are known."""
    types = {*running, *(name for one in spec.cloud.placements for name in instances_of(spec, one))}
    return {name: price for name in sorted(types) if (price := hourly(name))}


def most_hourly(spec: Spec, inventory: CloudInventory) -> float | None:
    """Of the instance type of the recipe that costs most; None if a price is unknown."""
    found = [version_costs(spec, placement, inventory.prices) for placement in spec.cloud.placements]
    return None if None in found else max(sum(cost.high for cost in costs) for costs in found if costs)


def other_scaling_words(observed: CloudObserved) -> str:
    """What another tool registered, and what replaces it; empty if it registered nothing."""
    if observed.scaling_elsewhere is None:
        return ""
    return (
        f"{observed.scaling_elsewhere.words_of(observed.scalable_kind)}, by autoscaling that another tool registered "
        "(endpoint.autoscaling in the recipe replaces it)"
    )


def with_other_scaling(spec: Spec, observed: CloudObserved) -> Spec:
    """Scaled as it is now, by another tool, where the recipe says nothing: for its cost."""
    if observed.scaling_elsewhere is None or spec.cloud.scaling is not None:
        return spec
    return replace(spec, place=replace(spec.cloud, scaling=observed.scaling_elsewhere))


def require_affordable(
    spec: Spec, plan: Plan, observed: CloudObserved, inventory: CloudInventory, most: float
) -> None:
    """Refused if any instance type of the recipe may cost more, fully scaled, or its price is unknown."""
    spec = with_other_scaling(spec, observed)
    starts = plan.has_action(CreateSharedEndpoint) or plan.has_action(SetInstanceCount)
    if spec.cloud.component is not None and not starts and spec.cloud.instance_scaling is None:
        return  # the shared endpoint runs already, and gets no more instances
    for placement in spec.cloud.placements:
        found = version_costs(spec, placement, inventory.prices)
        if found is None:
            unknown = [name for name in instances_of(spec, placement) if name not in inventory.prices]
            raise OverBudget(
                f"--max-hourly {most:g}: the price of {' and '.join(unknown)} is unknown",
                hint=f"{reads_the_list(spec.cloud.region)}; or choose an instance type with a known price, or omit "
                "--max-hourly",
            )
        high = sum(cost.high for cost in found)
        if high > most:
            raise OverBudget(
                f"--max-hourly {most:g}: {spec.name} may cost {words_of(found)}",
                hint=f"allow {format_price(high, found[0].price.currency)}, or use fewer or smaller instances",
            )
    if plan.has_action(RunTransferJob):
        _require_affordable_job(spec, observed, inventory, most)


def instances_of(spec: Spec, placement: Placement) -> tuple[str, ...]:
    """The instance types of all its versions."""
    second = spec.candidate.spec.cloud.placements if spec.candidate else ()
    return tuple(dict.fromkeys((*placement.types, *(one.instance for one in second))))


def _require_affordable_job(
    spec: Spec, observed: CloudObserved, inventory: CloudInventory, most: float
) -> None:
    """During the deployment the current generation costs, too."""
    job = transfer_job_place(spec, inventory)
    cost, serving = job_cost(job, inventory), _serving_cost(observed, inventory)
    if cost is None:
        instance = job.instance if job else ""
        raise OverBudget(
            f"--max-hourly {most:g}: the price of the transfer job on {instance} is unknown",
            hint=f"{reads_the_list(spec.cloud.region)}; or choose a weights.job.instance_type with a known price, or "
            "omit --max-hourly",
        )
    total = cost.high + serving
    if total > most:
        extra = (
            f" in addition to {format_price(serving, cost.price.currency)} of the running endpoint"
            if serving
            else ""
        )
        raise OverBudget(
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
    prices = (
        [inventory.prices[name].hourly for name in current.types if name in inventory.prices]
        if current
        else []
    )
    least = 0 if observed.endpoint.status == "InService" else 1
    return max(observed.endpoint.count, observed.endpoint.desired_count, least) * max(prices, default=0.0)


def require_affordable_generation(
    generation: Generation, hourly: Callable[[str], Price | None], most: float | None
) -> str:
    """The hourly cost of a generation, in words; Refused if that may be above the limit, or is unknown."""
    component = generation.serving.cloud.component
    if component is not None:
        return f"nothing more: the shared endpoint {component.place.endpoint} runs already"
    found = generation_costs(generation, hourly)
    if most is not None and found is None:
        raise OverBudget(
            f"--max-hourly {most:g}: the price of {generation.instance or generation.server} is unknown",
            hint=f"{reads_the_list(generation.host)}; or omit --max-hourly",
        )
    high = sum(cost.high for cost in found or ())
    if most is not None and found is not None and high > most:
        raise OverBudget(
            f"--max-hourly {most:g}: the generation {generation.server} may cost {words_of(found)}",
            hint=f"allow {format_price(high, found[0].price.currency)}, or choose another generation",
        )
    return words_of(found) if found else UNKNOWN_PRICE
