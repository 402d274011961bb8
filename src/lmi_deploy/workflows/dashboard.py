"""A CloudWatch dashboard of one deployment, as the JSON that PutDashboard takes.

Sources: CloudWatch's API reference, "Dashboard Body Structure and Syntax" (24 columns, metric arrays, annotations);
SageMaker developer guide, "Amazon SageMaker AI metrics in Amazon CloudWatch" and "Monitor asynchronous endpoint"
(names, dimensions, units: latencies are in microseconds).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.catalog.instances import instance
from lmi_deploy.domain.record import DeploymentRef, Generation
from lmi_deploy.domain.sagemaker.dashboard_names import dashboard_marker, dashboard_name
from lmi_deploy.domain.sagemaker.resource_settings import TAG_DASHBOARD, VARIANT
from lmi_deploy.domain.serving_record import SageMakerServing
from lmi_deploy.errors import NotFound, UsageRefused
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.invoke import require_serving

_INVOCATIONS: Final = "AWS/SageMaker"
_USE: Final = "/aws/sagemaker/Endpoints"
_COMPONENT_USE: Final = "/aws/sagemaker/InferenceComponents"
_WIDTH: Final = 12
_HEIGHT: Final = 6
_NOTE_HEIGHT: Final = 2
_CONSOLES: Final = {"aws": "console.aws.amazon.com", "aws-cn": "console.amazonaws.cn"}
Widget = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    name: str
    """That the account knows it by: dashboards have no region."""
    body: dict[str, Any]
    component: bool
    """Whether it is of an inference component on a shared endpoint."""


def dashboard(ref: DeploymentRef, deps: Dependencies) -> Dashboard:
    """By the record alone. NotFound if it does not answer yet; UsageRefused where CloudWatch does not measure it."""
    require_serving(ref, deps)
    record = deps.targets[ref.target].read_record(ref)
    assert record is not None
    assert record.current is not None
    place = record.current.serving.place
    if not isinstance(place, SageMakerServing):
        raise UsageRefused(
            f"{ref.name} runs on this machine, which CloudWatch does not measure",
            hint="name a deployment on SageMaker; `lmi status` and `lmi bench` show the figures of this one",
        )
    return Dashboard(
        name=dashboard_name(ref.name, place.region),
        body=_body(ref.name, record.current, place),
        component=place.component is not None,
    )


def write_dashboard(ref: DeploymentRef, made: Dashboard, deps: Dependencies) -> str:
    """Its address in the console. The tag of the endpoint or component comes first: by it, `lmi down` finds this."""
    cloud = deps.cloud(ref.region)
    with locked(ref, deps):
        served = cloud.components.component if made.component else cloud.hosting.endpoint
        if (found := served(ref.name)) is None:
            what = "model" if made.component else "endpoint"
            raise NotFound(f"{ref.name}: the {what} was deleted", hint="run `lmi up` to create it again")
        cloud.hosting.tag(found.arn, ((TAG_DASHBOARD, made.name),))
        cloud.dashboards.write(made.name, json.dumps(made.body), marker=dashboard_marker(ref.name))
    region, domain = cloud.caller.region, _CONSOLES.get(cloud.caller.partition, "")
    return f"https://{region}.{domain}/cloudwatch/home?region={region}#dashboards:name={made.name}" * bool(
        domain
    )


def _body(name: str, generation: Generation, place: SageMakerServing) -> dict[str, Any]:
    host = f"the shared endpoint {place.component.place.endpoint}, " if place.component else ""
    note = (
        f"**{name}**: {generation.serving.model} on {host}{generation.instance}, {place.region}. "
        f"{dashboard_marker(name)}, which replaces changes that are made here. `lmi down` deletes it."
    )
    head = {"type": "text", "x": 0, "y": 0, "width": 2 * _WIDTH, "height": _NOTE_HEIGHT}
    placed = [{**head, "properties": {"markdown": note}}]
    for number, properties in enumerate(_charts(name, generation, place)):
        position = {
            "x": number % 2 * _WIDTH,
            "y": _NOTE_HEIGHT + number // 2 * _HEIGHT,
            "width": _WIDTH,
            "height": _HEIGHT,
        }
        shared = {"view": "timeSeries", "region": place.region, "period": 60}
        placed.append({"type": "metric", **position, "properties": {**shared, **properties}})
    return {"start": "-PT3H", "periodOverride": "inherit", "widgets": placed}


def _charts(name: str, generation: Generation, place: SageMakerServing) -> Iterator[Widget]:
    endpoint = place.component.place.endpoint if place.component else name
    variant = ("EndpointName", endpoint, "VariantName", place.variant or VARIANT)
    component = ("InferenceComponentName", name)
    machine = instance(generation.instance)
    has_gpus = machine is None or machine.kind == "gpu"
    if place.component is None:
        yield from _requests(variant, place, each=("instance", "InvocationsPerInstance"))
    else:
        yield from _requests(component, place, each=("copy", "InvocationsPerCopy"))
        yield from _use_of_copies(component, has_gpus=has_gpus)
    of = f"Instances of {endpoint}: " if place.component else ""
    yield _use(
        f"{of}CPU, memory and disk (%; each CPU core adds up to 100)",
        ("CPUUtilization", "MemoryUtilization", "DiskUtilization"),
        variant,
    )
    if has_gpus:
        gpu = ("GPUUtilization", "GPUMemoryUtilization")
        yield _use(f"{of}GPU (%; each GPU adds up to 100)", gpu, variant)
    if place.async_output:
        names = ("ApproximateBacklogSize", "InvocationsProcessed", "InvocationFailures", "ExpiredRequests")
        yield _counts(
            "Queue", [(_INVOCATIONS, metric, ("EndpointName", name)) for metric in names], stat="Average"
        )


def _requests(of: tuple[str, ...], place: SageMakerServing, *, each: tuple[str, str]) -> Iterator[Widget]:
    """`each`: what the requests are divided by, and the metric of that."""
    counted = ("Invocations", "Invocation4XXErrors", "Invocation5XXErrors")
    yield _counts("Requests a minute", [(_INVOCATIONS, metric, of) for metric in counted])
    yield _latency("Time in the container", "ModelLatency", of, ("p50", "p90", "p99"))
    yield _latency("Overhead of SageMaker", "OverheadLatency", of, ("p50", "p99"))
    unit, metric = each
    per_unit = _counts(f"Requests a minute and {unit}", [(_INVOCATIONS, metric, of)])
    if place.scaling is not None and place.scaling.invocations:
        line = {"value": place.scaling.invocations, "label": "target of autoscaling"}
        per_unit["annotations"] = {"horizontal": [line]}
    yield per_unit


def _use_of_copies(of: tuple[str, ...], *, has_gpus: bool) -> Iterator[Widget]:
    own = ("CPUUtilizationNormalized", "MemoryUtilizationNormalized")
    yield _use("CPU and memory (% of what its copies have reserved)", own, of, _COMPONENT_USE)
    if has_gpus:
        gpu = ("GPUUtilizationNormalized", "GPUMemoryUtilizationNormalized")
        yield _use("GPU (% of what its copies have reserved)", gpu, of, _COMPONENT_USE)


def _counts(title: str, metrics: Sequence[tuple[str, str, tuple[str, ...]]], *, stat: str = "Sum") -> Widget:
    return {
        "title": title,
        "stat": stat,
        "metrics": [[space, metric, *dimensions] for space, metric, dimensions in metrics],
        "yAxis": {"left": {"min": 0, "showUnits": False}},
    }


def _latency(title: str, metric: str, dimensions: tuple[str, ...], stats: tuple[str, ...]) -> Widget:
    """Microseconds become milliseconds by metric math."""
    metrics: list[list[Any]] = []
    for stat in stats:
        metrics.append([{"expression": f"{stat}_us / 1000", "id": f"{stat}_ms", "label": stat}])
        hidden = {"id": f"{stat}_us", "stat": stat, "visible": False}
        metrics.append([_INVOCATIONS, metric, *dimensions, hidden])
    return {
        "title": f"{title} (ms)",
        "metrics": metrics,
        "yAxis": {"left": {"min": 0, "showUnits": False}},
    }


def _use(title: str, metrics: tuple[str, ...], dimensions: tuple[str, ...], space: str = _USE) -> Widget:
    return {
        "title": title,
        "stat": "Average",
        "metrics": [[space, metric, *dimensions] for metric in metrics],
        "yAxis": {"left": {"min": 0, "showUnits": False}},
    }
