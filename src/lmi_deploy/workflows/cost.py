"""What the endpoints of a month cost: AWS lists what runs, and the records of the deployments explain it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Final

from lmi_deploy.domain.dearest_type import dearest_type
from lmi_deploy.domain.deployment_list import ListedDeployment, ListedDeployments
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.record import DeploymentRef, Record, ServingPeriod
from lmi_deploy.domain.sagemaker.expiry import parse_moment
from lmi_deploy.domain.sagemaker.resource_settings import COSTS_NOTHING
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob, compile_job_of
from lmi_deploy.errors import AccessError, LmiError, Refused, UsageRefused
from lmi_deploy.targets.target import AnyTarget
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.list_deployments import list_with_status

_FREE: Final = frozenset({"", *COSTS_NOTHING})
"""The status of an endpoint that costs nothing; empty: there is none."""
_LONGEST_JOB: Final = timedelta(days=9)
"""MaxRuntimeInSeconds of a processing job is at most 777,600 (botocore's service model)."""
NOT_SEEN: Final = (
    "deployments that were deleted, whose record was deleted with them",
    "instances that autoscaling and its schedules started above the lowest number that these allow",
    "numbers of instances before the last change by another tool, and how long an endpoint that another tool deleted "
    "was gone: these hours have what lmi deployed",
    "changes of a price: every hour has the price of now",
    "the types that instance pools took: every hour has the price of the type that costs most",
    "what served before the oldest generation of a record that an earlier lmi wrote, and earlier bounds of "
    "autoscaling: every hour has those of the recorded generation",
    "other numbers of instances that a shared endpoint (`endpoint.share`) had: every hour has the number of now",
    "jobs that the tag search does not show, storage and data transfer",
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

    def require_started(self, now: datetime) -> None:
        if now < self.start:
            raise UsageRefused(
                f"--month {self.text}: it is in the future; now it is {now:%Y-%m}",
                hint="name this month, whose projection reaches to its end, or an earlier one",
            )

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
    variant: str = ""
    """`main` or `candidate`, of an endpoint with a candidate, which counts in both; empty for any other."""
    models: tuple[str, ...] = ()
    """Of an endpoint that deployments share: those on it now. It counts once, whatever is on it."""
    job: str = ""
    """`transfer`, `compile` or `load`: a job of the deployment, which ends by itself."""

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
        return left * self.price.hourly if self.price and self.running and not self.job else 0.0


def listed_deployments(region: str, deps: Dependencies) -> list[tuple[AnyTarget, ListedDeployments]]:
    """What exists, by target. From then on `deps.clock` has AWS's time."""
    return [(target, list_with_status(target, region)) for target in deps.targets.values()]


def usages(
    month: Month,
    listings: Sequence[tuple[AnyTarget, ListedDeployments]],
    region: str,
    deps: Dependencies,
    unread: Callable[[LmiError], None],
) -> Iterator[Usage]:
    """By deployment, the oldest generation first; then shared endpoints. Each record is read: one request for each
    deployment; and two for each endpoint that no record explains: one that deployments share, one whose `up` was
    interrupted, or whose record is lost; and one for each job. `unread` gets why a record or the jobs cannot be read.
    """

    @cache
    def price(place: str, instance: str) -> Price | None:
        return deps.cloud(place).prices.hourly(instance)

    for target, listing in listings:
        now = deps.clock.now()
        models = defaultdict[str, list[str]](list)
        for one in listing.found:
            if one.shared == "endpoint":
                continue
            try:
                record = target.read_record(one.ref)
            except Refused as newer:
                unread(newer)
                record = None
            models[_endpoint_below(one, record)].append(one.ref.name)
            if record and record.periods:
                periods = _with_present(one, record.periods, deps, unread)
                yield from _of_periods(one, periods, month, now, price)
            elif not one.shared:
                yield from _of_endpoint(one, (), month, deps, price)

        for one in listing.found:
            if one.shared == "endpoint":
                yield from _of_endpoint(one, tuple(models[one.ref.name]), month, deps, price)
        yield from _of_jobs(target, region, month, now, deps, unread)


def _of_jobs(
    target: AnyTarget,
    region: str,
    month: Month,
    now: datetime,
    deps: Dependencies,
    unread: Callable[[LmiError], None],
) -> Iterator[Usage]:
    try:
        for ref, job in target.list_jobs(region, month.start - _LONGEST_JOB):
            yield from _of_job(ref, job, month, now, deps)
    except AccessError as denied:
        unread(denied)


def _of_job(
    ref: DeploymentRef, job: ObservedJob, month: Month, now: datetime, deps: Dependencies
) -> Iterator[Usage]:
    started = parse_moment(job.started)
    span = started and _within(month, started, parse_moment(job.ended) or now, now, serves=job.is_running)
    if not span:
        return
    start, end, running = span
    yield Usage(
        ref=ref,
        instance=job.instance,
        count=job.count,
        autoscaled=False,
        start=start,
        end=end,
        running=running,
        price=deps.cloud(ref.region).prices.hourly(job.instance, "processing"),
        job="compile" if compile_job_of(job.name) else job.purpose,
    )


def _endpoint_below(one: ListedDeployment, record: Record | None) -> str:
    """The shared endpoint that a model is on; empty for any other deployment."""
    latest = record.known[-1] if record and record.known else None
    component = latest.serving.cloud.component if latest and one.components else None
    return component.place.endpoint if component else ""


def _of_periods(
    one: ListedDeployment,
    periods: tuple[ServingPeriod, ...],
    month: Month,
    now: datetime,
    price: Callable[[str, str], Price | None],
) -> Iterator[Usage]:
    for period, start, end, running in _spans(periods, one, month, now):
        if not (period.types or period.count):
            continue  # the instances are the shared endpoint's
        instance, of_type = dearest_type(period.types, partial(price, one.ref.region))
        usage = Usage(
            ref=one.ref,
            instance=instance,
            count=period.count,
            autoscaled=period.autoscaled,
            start=start,
            end=end,
            running=running,
            price=of_type,
            variant="main" if period.candidate_type else "",
        )
        yield usage
        if period.candidate_type:
            yield _of_candidate(usage, period.candidate_type, period.candidate_count, price)


def _with_present(
    one: ListedDeployment,
    periods: tuple[ServingPeriod, ...],
    deps: Dependencies,
    unread: Callable[[LmiError], None],
) -> tuple[ServingPeriod, ...]:
    """And what runs since another tool changed the endpoint: one request, two if lmi did not make its config."""
    last = periods[-1]
    if one.status != "InService" or not last.types or last.autoscaled:
        return periods
    hosting = deps.cloud(one.ref.region).hosting
    try:
        endpoint = hosting.endpoint(one.ref.name)
        is_other = endpoint is not None and endpoint.config != last.server
        config = hosting.endpoint_config(endpoint.config) if endpoint and is_other else None
    except AccessError as denied:
        unread(denied)
        return periods
    changed = last.followed_by(endpoint, config) if endpoint else None
    return (*periods, changed) if changed else periods


def _of_candidate(main: Usage, instance: str, count: int, price: Callable[[str, str], Price | None]) -> Usage:
    return replace(
        main,
        variant="candidate",
        instance=instance,
        count=count,
        autoscaled=False,
        price=price(main.ref.region, instance),
    )


def _of_endpoint(
    one: ListedDeployment,
    models: tuple[str, ...],
    month: Month,
    deps: Dependencies,
    price: Callable[[str, str], Price | None],
) -> Iterator[Usage]:
    """As AWS describes it, since it was created."""
    now, created = deps.clock.now(), parse_moment(one.created)
    if created is None or one.status in _FREE:
        return
    span = _within(month, created, now, now, serves=True)
    if span is None:
        return
    start, end, running = span
    hosting = deps.cloud(one.ref.region).hosting
    endpoint = hosting.endpoint(one.ref.name)
    config = hosting.endpoint_config(endpoint.config) if endpoint else None
    if endpoint is None or config is None:
        return
    settings = config.settings
    types = settings.types if settings.instance else ()
    instance, of_type = dearest_type(types, partial(price, one.ref.region))
    usage = Usage(
        ref=one.ref,
        instance=instance,
        # One that is created does not show its instances yet.
        count=max(endpoint.count, endpoint.desired_count, 0 if endpoint.status == "InService" else 1),
        autoscaled=settings.instance_scaling is not None,
        start=start,
        end=end,
        running=running,
        price=of_type,
        variant="main" if settings.candidate else "",
        models=models,
    )
    yield usage
    if settings.candidate:
        yield _of_candidate(usage, settings.candidate.instance, settings.candidate.count, price)


def _spans(
    periods: tuple[ServingPeriod, ...], one: ListedDeployment, month: Month, now: datetime
) -> Iterator[tuple[ServingPeriod, datetime, datetime, bool]]:
    """Each until the next one; the last one until now, if the endpoint exists: then it runs.

    The first begins with its endpoint, which costs before it serves.
    """
    starts = [parse_moment(period.since) for period in periods]
    created = parse_moment(one.created)
    if starts and starts[0] is not None and created is not None:
        starts[0] = min(starts[0], created)
    exists = one.status not in _FREE
    ends = [*starts[1:], now if exists else None]
    for number, (period, start, end) in enumerate(zip(periods, starts, ends, strict=True), start=1):
        if start is None or end is None:
            continue
        span = _within(month, start, end, now, serves=exists and number == len(periods))
        if span is not None:
            yield period, *span


def _within(
    month: Month, start: datetime, end: datetime, now: datetime, *, serves: bool
) -> tuple[datetime, datetime, bool] | None:
    """The part of a time within the month, and whether it goes on. One that goes on may have started after now, by the
    clock of another machine: then it has no hours yet.
    """
    begin, until = max(min(start, now), month.start), min(end, month.end)
    running = serves and until == now
    return (begin, until, running) if begin < until or (running and begin == until) else None
