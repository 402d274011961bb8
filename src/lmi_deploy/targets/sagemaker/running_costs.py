"""The current cost of a deployment on SageMaker, and what keeps costing when a command stops early."""

from __future__ import annotations

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.observed_state import CloudObserved, Price
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.resource_settings import COSTS_NOTHING, ObservedEndpoint
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.prices import Prices, Use
from lmi_deploy.targets.sagemaker.deployed_instance import candidate_instances, deployed_instance


def hourly(observed: CloudObserved, cloud: Cloud) -> str:
    """Of its endpoint and its jobs, in words; empty if nothing costs, or the price is unknown."""
    prices = cloud.prices
    lines = [
        _shared_hourly(observed, cloud) or _endpoint_hourly(observed, prices),
        *(_job_hourly(job, prices) for job in (*observed.jobs, *observed.compile_jobs)),
    ]
    return ", and ".join(filter(None, lines))


def remaining(observed: CloudObserved, prices: Prices) -> str:
    """What still exists although the command stops early, and its cost; empty if nothing does."""
    lines = [
        _remaining_endpoint_cost(observed, prices),
        *(_remaining_job_cost(job, observed.ref, prices) for job in observed.jobs),
        *(_remaining_compile_cost(job, observed.ref, prices) for job in observed.compile_jobs),
    ]
    return "; ".join(filter(None, lines))


def _shared_hourly(observed: CloudObserved, cloud: Cloud) -> str:
    """Of the endpoint that it shares; two requests, for no other deployment. Empty if it may not be described."""
    name = observed.endpoint.shared if observed.endpoint and not observed.not_owned_reason else ""
    if not name:
        return ""
    try:
        endpoint = cloud.hosting.endpoint(name)
        config = cloud.hosting.endpoint_config(endpoint.config) if endpoint else None
    except LmiError:
        return ""
    if endpoint is None or endpoint.status in COSTS_NOTHING or config is None or not config.settings.instance:
        return ""
    ((instance, count),) = _main_instances(endpoint, config.settings.instance)
    cost = _in_words(count, instance, cloud.prices, use="hosting", of=f" of {name}")
    return f"part of {cost}: its models share its instances" if cost else ""


def _endpoint_hourly(observed: CloudObserved, prices: Prices) -> str:
    endpoint, instance = observed.endpoint, deployed_instance(observed)
    if endpoint is None or endpoint.status in COSTS_NOTHING or not instance:
        return ""
    if observed.not_owned_reason and not observed.ownership:
        return ""
    if endpoint.shared:
        return ""  # the instances are the shared endpoint's, whatever is on it
    parts = _main_instances(endpoint, instance)
    main, found = _main_hourly(observed, parts, prices), candidate_instances(observed)
    if not main or found is None or not found[0]:
        return main
    name, count = found
    candidate = _in_words(count, name, prices, use="hosting") or f"an unknown price ({count} x {name})"
    return f"{_total((*parts, found), prices)}{main}, and its candidate {candidate}"


def _total(parts: tuple[tuple[str, int], ...], prices: Prices) -> str:
    """In front of its parts; empty if a price is unknown."""
    known = [(price, count) for name, count in parts if (price := _price(name, prices, "hosting"))]
    if len(known) < len(parts):
        return ""
    total = sum(price.hourly * count for price, count in known)
    return f"{format_price(total, known[0][0].currency)} an hour: "


def _main_instances(endpoint: ObservedEndpoint, instance: str) -> tuple[tuple[str, int], ...]:
    if running := endpoint.running_types:
        return running
    # One that serves may have scaled to zero; one that is created does not show its instances yet.
    least = 0 if endpoint.status == "InService" else 1
    return ((instance, max(endpoint.count, endpoint.desired_count, least)),)


def _main_hourly(observed: CloudObserved, parts: tuple[tuple[str, int], ...], prices: Prices) -> str:
    found = ", and ".join(_in_words(count, name, prices, use="hosting") for name, count in parts)
    is_placed = observed.endpoint is not None and bool(observed.endpoint.running_types)
    others = () if is_placed or observed.config is None else observed.config.settings.types[1:]
    return (
        f"{found}, unless SageMaker takes {' or '.join(others)}"
        if found and others and parts[0][1]
        else found
    )


def _job_hourly(job: ObservedJob, prices: Prices) -> str:
    if not job.is_running or not job.instance or job.kind == "optimization-job":
        return (
            ""  # of an optimization job the instance is the one that will serve: SageMaker chooses the other
        )
    return _in_words(job.count, job.instance, prices, use="processing")


def _in_words(count: int, instance: str, prices: Prices, *, use: Use, of: str = "") -> str:
    price = _price(instance, prices, use)
    if price is None:
        return ""
    total = format_price(count * price.hourly, price.currency)
    return f"{total} an hour{of} ({count} x {instance}; {price.source})"


def _price(instance: str, prices: Prices, use: Use) -> Price | None:
    try:
        return prices.hourly(instance, use)
    except LmiError:
        return None


def _remaining_endpoint_cost(observed: CloudObserved, prices: Prices) -> str:
    if observed.endpoint is None or observed.not_owned_reason:
        return ""
    name, endpoint = observed.ref.name, observed.endpoint
    if endpoint.status in COSTS_NOTHING:
        return f"the endpoint {name} is {endpoint.status}, which costs nothing"
    cost = _endpoint_hourly(observed, prices)
    what = f"the endpoint {name} is {endpoint.status}"
    if endpoint.shared:
        what = f"the model {name} is {endpoint.status} on the shared endpoint {endpoint.shared}, which runs"
    ends = f"`{observed.ref.command('down')}` deletes it"
    return f"{what} and still costs {cost}; {ends}" if cost else f"{what} and still costs money; {ends}"


def _remaining_job_cost(job: ObservedJob, ref: DeploymentRef, prices: Prices) -> str:
    if not job.is_running:
        return f"these credentials may not describe the transfer job {job.name}, which may still run and cost money"
    cost = _job_hourly(job, prices) or f"an unknown price ({job.count} x {job.instance})"
    if job.purpose == "load":
        ends = f"`lmi gc --region {ref.region}` stops it"
        return f"the load job {job.name} is {job.status} and still costs {cost}; {ends}"
    ends = f"`lmi up` waits for it, `{ref.command('down')}` stops it"
    return f"the transfer job {job.name} is {job.status} and still costs {cost}; {ends}"


def _remaining_compile_cost(job: ObservedJob, ref: DeploymentRef, prices: Prices) -> str:
    cost = _job_hourly(job, prices) or "an unknown price"
    ends = f"`lmi compile` waits for it, `{ref.command('down')}` stops it"
    return f"the compile job {job.name} is {job.status} and still costs {cost}; {ends}"
