"""The current cost of a deployment on SageMaker, and what keeps costing when a command stops early."""

from __future__ import annotations

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.observed import CloudObserved, Observed
from lmi_deploy.domain.record import DeploymentRef, Generation
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.errors import Interrupted, LmiError
from lmi_deploy.ports.prices import Use
from lmi_deploy.workflows.dependencies import Dependencies

_FREE = frozenset({"Failed", "Deleting"})


def hourly(observed: Observed, deps: Dependencies) -> str:
    """Of its endpoint and its transfer jobs, in words; empty if nothing costs, or the price is unknown."""
    jobs = observed.jobs if isinstance(observed, CloudObserved) else ()
    lines = [_endpoint_hourly(observed, deps), *(job_hourly(job, observed.ref, deps) for job in jobs)]
    return ", and ".join(filter(None, lines))


def job_hourly(job: ObservedJob, ref: DeploymentRef, deps: Dependencies) -> str:
    """The same of one transfer job."""
    if not job.is_running or not job.instance:
        return ""
    return _in_words(job.count, job.instance, ref, deps, use="processing")


def _in_words(count: int, instance: str, ref: DeploymentRef, deps: Dependencies, *, use: Use) -> str:
    try:
        price = deps.cloud(ref.region).prices.hourly(instance, use)
    except LmiError:
        return ""
    what = f"{count} x {instance}"
    return (
        f"{format_price(count * price.hourly, price.currency)} an hour ({what}; {price.source})"
        if price
        else ""
    )


def _endpoint_hourly(observed: Observed, deps: Dependencies) -> str:
    if not isinstance(observed, CloudObserved) or observed.endpoint is None:
        return ""
    if observed.not_owned_reason and not observed.ownership:
        return ""
    endpoint, instance = observed.endpoint, _instance(observed)
    if endpoint.status in _FREE or not instance:
        return ""
    count = max(endpoint.count, endpoint.desired_count, 1)
    return _in_words(count, instance, observed.ref, deps, use="hosting")


def _instance(observed: CloudObserved) -> str:
    """Its type: by the current config, else by the record."""
    if observed.config is not None and observed.config.settings.instance:
        return observed.config.settings.instance
    generation = generation_of(observed)
    return generation.instance if generation else ""


def generation_of(observed: CloudObserved) -> Generation | None:
    """The recorded generation of the current config, else the pending one."""
    record, endpoint = observed.record, observed.endpoint
    if record is None:
        return None
    items = (*record.generations, *((record.coming,) if record.coming else ()))
    serving = endpoint.config if endpoint else ""
    return next((g for g in reversed(items) if g.server == serving), items[-1] if items else None)


def remaining_cost(observed: Observed, deps: Dependencies) -> str:
    """What still exists although the command stops early, and its cost; empty if nothing does."""
    if not isinstance(observed, CloudObserved):
        return ""
    lines = [
        _remaining_endpoint_cost(observed, deps),
        *(_remaining_job_cost(job, observed.ref, deps) for job in observed.jobs),
    ]
    return "; ".join(filter(None, lines))


def _remaining_endpoint_cost(observed: CloudObserved, deps: Dependencies) -> str:
    if observed.endpoint is None or observed.not_owned_reason:
        return ""
    name, endpoint = observed.ref.name, observed.endpoint
    if endpoint.status in _FREE:
        return f"the endpoint {name} is {endpoint.status}, which costs nothing"
    cost = _endpoint_hourly(observed, deps)
    what = f"the endpoint {name} is {endpoint.status}"
    ends = f"`lmi down {name}` ends it"
    return f"{what} and goes on costing {cost}; {ends}" if cost else f"{what} and goes on costing; {ends}"


def _remaining_job_cost(job: ObservedJob, ref: DeploymentRef, deps: Dependencies) -> str:
    if not job.is_running:
        return f"whether the transfer job {job.name} runs, and costs, may not be asked with these credentials"
    cost = job_hourly(job, ref, deps) or f"an unknown price ({job.count} x {job.instance})"
    ends = f"`lmi up` goes on watching it, `lmi down {ref.name}` stops it"
    return f"the transfer job {job.name} is {job.status} and goes on costing {cost}; {ends}"


def interrupted(ref: DeploymentRef, deps: Dependencies, *, hint: str) -> Interrupted:
    """The error with what still exists, and what it costs."""
    try:
        status = remaining_cost(deps.targets[ref.target].observe(ref), deps)
    except LmiError:
        status = "what is there could not be looked at"
    return Interrupted("interrupted" + (f": {status}" if status else ""), hint=hint)
