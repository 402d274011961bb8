"""What the endpoints of a month cost, as far as the records of the deployments that exist now tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Final

from lmi_deploy.domain.dearest_type import dearest_type
from lmi_deploy.domain.deployment_list import ListedDeployment
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.record import DeploymentRef, Generation, Record
from lmi_deploy.domain.sagemaker.expiry import parse_moment
from lmi_deploy.domain.sagemaker.resource_settings import COSTS_NOTHING
from lmi_deploy.errors import UsageRefused
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.list_deployments import list_with_status

_FREE: Final = frozenset({"", *COSTS_NOTHING})
"""The status of an endpoint that costs nothing; empty: there is none."""
NOT_SEEN: Final = (
    "deployments that were deleted, whose record was deleted with them",
    "instances that autoscaling, its schedules or `lmi scale` started above the lowest number that these allow",
    "changes of a price: every hour has the price of now",
    "the types that instance pools took: every hour has the price of the type that costs most",
    "other numbers of instances that a shared endpoint (`endpoint.share`) had: every hour has the number of now",
    "transfer and compile jobs, storage and data transfer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """From `start` to `end`, UTC."""

    start: datetime
    end: datetime

    @classmethod
    def parse(cls, text: str) -> Month:
        """`YYYY-MM`."""
        try:
            start = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
        except ValueError:
            raise UsageRefused(f"--month {text}: not a month", hint="write it as 2026-11") from None
        return cls(start=start, end=(start + timedelta(days=32)).replace(day=1))

    @property
    def text(self) -> str:
        return f"{self.start:%Y-%m}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One generation of a deployment, or a shared endpoint, within the month."""

    ref: DeploymentRef
    instance: str
    count: int
    autoscaled: bool
    start: datetime
    end: datetime
    running: bool
    """Whether it still serves; then `end` is now."""
    price: Price | None
    models: tuple[str, ...] = ()
    """Of an endpoint that deployments share: those on it now. It counts once, whatever is on it."""

    @property
    def hours(self) -> float:
        """Of all its instances."""
        return self.count * (self.end - self.start).total_seconds() / 3600

    @property
    def cost(self) -> float | None:
        return self.hours * self.price.hourly if self.price else None

    def rest(self, end: datetime) -> float:
        """The cost from now to the end of the month, if nothing changes."""
        left = self.count * (end - self.end).total_seconds() / 3600
        return left * self.price.hourly if self.price and self.running else 0.0


def usages(month: Month, region: str, deps: Dependencies) -> Iterator[Usage]:
    """By deployment, the oldest generation first; then shared endpoints. Each record is read: one request for each
    deployment; and two for each shared endpoint, which has no record.
    """
    now = deps.clock.now()

    @cache
    def price(place: str, instance: str) -> Price | None:
        return deps.cloud(place).prices.hourly(instance)

    for target in deps.targets.values():
        listing = list_with_status(target, region)
        models = defaultdict[str, list[str]](list)
        for one in listing.found:
            if one.shared == "endpoint":
                continue
            record = target.read_record(one.ref)
            models[_endpoint_below(one, record)].append(one.ref.name)
            for generation, start, end in _spans(record.generations if record else (), one, now):
                start, end = max(start, month.start), min(end, month.end)
                if start >= end:
                    continue
                place = generation.serving.cloud
                if place.component is not None:
                    continue  # the instances are the shared endpoint's
                instance, of_type = dearest_type(generation.types, partial(price, one.ref.region))
                usage = Usage(
                    ref=one.ref,
                    instance=instance,
                    count=place.scaling.lowest if place.scaling else place.count,
                    autoscaled=place.scaling is not None,
                    start=start,
                    end=end,
                    running=end == now,
                    price=of_type,
                )
                yield usage
                if candidate := generation.serving.candidate:
                    instance, count = candidate.instance, candidate.serving.cloud.count
                    of_type = price(one.ref.region, instance)
                    yield replace(usage, instance=instance, count=count, autoscaled=False, price=of_type)

        for one in listing.found:
            yield from _of_shared(one, tuple(models[one.ref.name]), month, deps, price)


def _endpoint_below(one: ListedDeployment, record: Record | None) -> str:
    """The shared endpoint that a model is on; empty for any other deployment."""
    latest = record.known[-1] if record and record.known else None
    component = latest.serving.cloud.component if latest and one.components else None
    return component.place.endpoint if component else ""


def _of_shared(
    one: ListedDeployment,
    models: tuple[str, ...],
    month: Month,
    deps: Dependencies,
    price: Callable[[str, str], Price | None],
) -> Iterator[Usage]:
    now, created = deps.clock.now(), parse_moment(one.created)
    if one.shared != "endpoint" or created is None or one.status in _FREE:
        return
    start, end = max(created, month.start), min(now, month.end)
    if start >= end:
        return
    hosting = deps.cloud(one.ref.region).hosting
    endpoint = hosting.endpoint(one.ref.name)
    config = hosting.endpoint_config(endpoint.config) if endpoint else None
    if endpoint is None or config is None:
        return
    instance = config.settings.instance
    yield Usage(
        ref=one.ref,
        instance=instance,
        # One that is created does not show its instances yet.
        count=max(endpoint.count, endpoint.desired_count, 0 if endpoint.status == "InService" else 1),
        autoscaled=config.settings.instance_scaling is not None,
        start=start,
        end=end,
        running=end == now,
        price=price(one.ref.region, instance) if instance else None,
        models=models,
    )


def _spans(
    generations: tuple[Generation, ...], one: ListedDeployment, now: datetime
) -> Iterator[tuple[Generation, datetime, datetime]]:
    """Each generation serves until the next one; the last one until now, if the endpoint exists."""
    starts = [parse_moment(generation.since) for generation in generations]
    ends = [*starts[1:], None if one.status in _FREE else now]
    # Without a record there is one end, and no start.
    for generation, start, end in zip(generations, starts, ends, strict=False):
        if start is not None and end is not None:
            yield generation, start, end
