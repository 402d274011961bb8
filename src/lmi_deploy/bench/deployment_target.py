"""A deployment as what is measured: where it answers, how it is asked, what it costs, what the report says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from lmi_deploy.bench.cloudwatch_figures import Between
from lmi_deploy.bench.report import BilledInstances, Factor
from lmi_deploy.bench.request_target import DeploymentTarget
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.record import DeploymentRef, Generation
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.domain.serving_record import SageMakerServing, ServingRecord
from lmi_deploy.engines.inference_codec import codec_of
from lmi_deploy.errors import AccessError, NotFound
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.invoke import require_serving, served_ref
from lmi_deploy.workflows.price_refresh import price_table


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedTarget:
    """`server` reads which generation serves now: a run in which it changes measured two servers."""

    target: DeploymentTarget
    billed: BilledInstances
    settings: dict[str, Factor]
    details: dict[str, str]
    server: Callable[[], str]
    model: str
    commit: str
    probe: ProbeSpec | None
    serving: ServingRecord
    measured: Between | None = None
    """What CloudWatch measured of it between two times; None where no service measures it."""


def deployed_target(ref: DeploymentRef, deps: Dependencies) -> DeployedTarget:
    """NotFound if it does not answer yet, or does not exist. No request to AWS but those for its record, and with
    instance pools for the types that it runs on.
    """
    target, generation = deps.targets[ref.target], _generation(ref, deps)
    serving = generation.serving
    settings: dict[str, Factor] = {
        "model": serving.model,
        "engine": serving.engine,
        "tensor_parallel_degree": serving.tensor_parallel_degree,
    }
    settings |= {
        name.removeprefix("option."): value
        for name, value in serving.properties
        if name in ("option.dtype", "option.quantize", "option.max_rolling_batch_size", "batch_size")
    }
    return DeployedTarget(
        target=DeploymentTarget(
            endpoint=target.inference_endpoint(served_ref(ref, serving)), codec=codec_of(serving, ref.name)
        ),
        billed=_billed(generation, ref, deps),
        settings=settings,
        details={
            **{"deployment": ref.name, "target": ref.target, "region": ref.region},
            **{"commit": serving.commit, "image": serving.place.image, "artifact": serving.artifact},
        },
        server=lambda: _server(ref, deps),
        model=serving.model,
        commit=serving.commit,
        probe=serving.probe,
        serving=serving,
        measured=_measured(ref, serving.place, deps) if isinstance(serving.place, SageMakerServing) else None,
    )


def _billed(generation: Generation, ref: DeploymentRef, deps: Dependencies) -> BilledInstances:
    """With instance pools, at the average price of the instances that it has now; with a candidate, of both versions:
    they share the requests, and both cost.
    """
    place = generation.serving.place
    if not isinstance(place, SageMakerServing) or place.component is not None:
        return BilledInstances()
    running: tuple[tuple[str, int], ...] = ((generation.instance, place.count),)
    if len(generation.types) > 1:
        endpoint = deps.cloud(ref.region).hosting.endpoint(ref.name)
        running = endpoint.running_types if endpoint and endpoint.running_types else running
    if candidate := generation.serving.candidate:
        also = {candidate.instance: candidate.serving.cloud.count}
        running = tuple((Counter(dict(running)) + Counter(also)).items())
    table, count = price_table(deps), sum(number for _, number in running)
    priced = [(table.price(name, place.region), number) for name, number in running]
    hourly = [price.hourly * number for price, number in priced if price]
    first, known = priced[0][0], count > 0 and len(hourly) == len(priced)
    return BilledInstances(
        instance=" and ".join(name for name, _ in running),
        count=count,
        price=replace(first, hourly=sum(hourly) / count) if first and known else None,
    )


def _server(ref: DeploymentRef, deps: Dependencies) -> str:
    """On SageMaker the endpoint config that answers: the record has only the updates that lmi made."""
    generation = _generation(ref, deps)
    if not isinstance(generation.serving.place, SageMakerServing):
        return generation.server
    if generation.serving.place.component is not None:
        return generation.server
    try:
        endpoint = deps.cloud(ref.region).hosting.endpoint(ref.name)
    except AccessError:
        return generation.server  # who may only invoke knows no more
    if endpoint is None:
        return "no endpoint"
    return f"{endpoint.config}, with an update to {endpoint.pending}" if endpoint.pending else endpoint.config


def _measured(ref: DeploymentRef, place: SageMakerServing, deps: Dependencies) -> Between:
    def between(since: datetime, until: datetime) -> RecentMetrics:
        metrics, variant = deps.cloud(ref.region).metrics, place.variant or VARIANT
        component = place.component is not None
        return metrics.between(ref.name, since, until, variant, component=component)

    return between


def _generation(ref: DeploymentRef, deps: Dependencies) -> Generation:
    require_serving(ref, deps)
    record = deps.targets[ref.target].read_record(ref)
    if record is None or record.current is None:
        raise NotFound(f"{ref.name}: no such deployment is running", hint="`lmi ls` lists the deployments")
    return record.current
