"""What requests, items and tokens cost at a measured rate, and the capacity of an instance for autoscaling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.bench.load import LOADS
from lmi_deploy.bench.report import BilledInstances, LoadPoint, Report
from lmi_deploy.domain.observed_state import Price

SAFETY_FACTOR: Final = 0.5
"""AWS's own first value: SageMakerVariantInvocationsPerInstance = MAX_RPS * SAFETY_FACTOR * 60
(docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html).
"""
BILLED_RATES: Final = (
    ("request", "requests_per_s"),
    ("item", "items_per_s"),
    ("input token", "input_tokens_per_s"),
    ("output token", "output_tokens_per_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCost:
    """Of a million of `unit` at `rate` per second, on all instances together."""

    unit: str
    rate: float
    amount: float
    currency: str

    @property
    def words(self) -> str:
        return f"{money(self.amount, self.currency)} per million {self.unit}s"


def money(amount: float, currency: str) -> str:
    """Three significant digits: a ratio of two costs of two digits is wrong by up to 10 %."""
    sign = "$" if currency == "USD" else f"{currency} "
    if amount <= 0:
        return f"{sign}0"
    digits = max(0, 2 - _exponent(amount))
    return f"{sign}{round(amount, 2 - _exponent(amount)):,.{digits}f}"


def _exponent(amount: float) -> int:
    return int(f"{amount:.2e}".partition("e")[2])


def per_million(price: Price, count: int, rate: float) -> float:
    """`count` instances at that price per hour make `rate` units per second."""
    return price.hourly * count / 3600 / rate * 1e6


def cost_of_seconds(billed: BilledInstances, seconds: float) -> float | None:
    """None if the price is unknown."""
    return billed.price.hourly * billed.count * seconds / 3600 if billed.price else None


def costs(point: LoadPoint) -> tuple[MeasuredCost, ...]:
    """Empty if the price is unknown."""
    price = point.billed.price
    if price is None:
        return ()
    return tuple(
        MeasuredCost(
            unit=unit,
            rate=point.rate(name),
            amount=per_million(price, point.billed.count, point.rate(name)),
            currency=price.currency,
        )
        for unit, name in BILLED_RATES
        if point.rate(name) > 0
    )


def cost_per_million(point: LoadPoint, unit: str) -> float | None:
    return next((cost.amount for cost in costs(point) if cost.unit == unit), None)


def best_point(points: Sequence[LoadPoint]) -> LoadPoint | None:
    """The highest throughput that meets all objectives; without objectives the highest throughput. INVALID points and
    ramps do not count: a ramp keeps no rate up.
    """
    judged = any(point.verdicts for point in points)
    able = [
        point for point in points if point.is_valid and not point.load.ramp and (point.passes or not judged)
    ]
    return max(able, key=lambda point: point.rate("requests_per_s"), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """`invocations` is what to write as `endpoint.autoscaling.invocations_per_instance`."""

    point: str
    rate: float
    instances: int
    invocations: int
    is_under_objectives: bool

    def lines(self) -> Iterator[str]:
        of = "that meets the objectives" if self.is_under_objectives else "measured, without an objective"
        yield f"invocations_per_instance: {self.invocations}"
        yield (
            f"{self.rate:.4g} requests/s, the highest rate {of} ({self.point}), / {self.instances} instances x 60 s "
            f"x {SAFETY_FACTOR:g} (AWS's first safety factor: room while new instances start)"
        )


def capacity(points: Sequence[LoadPoint]) -> Capacity | None:
    """Of one deployment; None if no point counts."""
    best = best_point(points)
    if best is None or best.rate("requests_per_s") <= 0:
        return None
    rate, instances = best.rate("requests_per_s"), best.billed.count
    return Capacity(
        point=best.name,
        rate=rate,
        instances=instances,
        invocations=max(1, int(rate / instances * 60 * SAFETY_FACTOR)),
        is_under_objectives=bool(best.verdicts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredInstance:
    """The best point of one deployment in one report. Amounts are of a million; None: not measured, or no price."""

    report: str
    instance: str
    count: int
    point: str
    rate: float
    output_rate: float
    judgement: str
    per_request: float | None
    per_input_token: float | None
    per_output_token: float | None
    price: Price | None


def measured_instances(
    reports: Mapping[str, Report], price_of: Callable[[str], Price | None]
) -> tuple[MeasuredInstance, ...]:
    """Cheapest first, by output tokens, else by requests; without a price last. `price_of` is asked where a report has
    no price. INVALID points, and runs without an instance type, are left out.
    """
    found = [
        _measured(name, point)
        for name, report in reports.items()
        for points in _by_instance(report, price_of).values()
        if (point := best_point(points))
    ]

    def order(one: MeasuredInstance) -> tuple[bool, float, float]:
        amount = one.per_output_token or one.per_request
        return amount is None, one.per_output_token or math.inf, one.per_request or math.inf

    return tuple(sorted(found, key=order))


def _by_instance(
    report: Report, price_of: Callable[[str], Price | None]
) -> dict[tuple[str, str], list[LoadPoint]]:
    """The points of each deployment and workload; their factors without the load name it."""
    found: dict[tuple[str, str], list[LoadPoint]] = {}
    for point in report.points:
        if point.billed.instance:
            price = point.billed.price or price_of(point.billed.instance)
            priced = replace(point, billed=replace(point.billed, price=price))
            rest = {name: value for name, value in point.factors.items() if name not in LOADS}
            found.setdefault((point.billed.instance, repr(sorted(rest.items()))), []).append(priced)
    return found


def _measured(name: str, point: LoadPoint) -> MeasuredInstance:
    return MeasuredInstance(
        report=name,
        instance=point.billed.instance,
        count=point.billed.count,
        point=point.name,
        rate=point.rate("requests_per_s"),
        output_rate=point.rate("output_tokens_per_s"),
        judgement="PASS" if point.verdicts else "no objective",
        per_request=cost_per_million(point, "request"),
        per_input_token=cost_per_million(point, "input token"),
        per_output_token=cost_per_million(point, "output token"),
        price=point.billed.price,
    )
