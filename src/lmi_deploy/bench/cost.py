"""What requests, items and tokens cost at a measured rate, and the capacity of an instance for autoscaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lmi_deploy.bench.report import LoadPoint
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
    """The highest throughput that meets all objectives; without objectives the highest throughput. INVALID points do
    not count.
    """
    judged = any(point.verdicts for point in points)
    able = [point for point in points if point.is_valid and (point.passes or not judged)]
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
