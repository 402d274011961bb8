"""A CloudWatch dashboard of one endpoint, as the JSON that PutDashboard takes.

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
    if place.component is not None:
        raise UsageRefused(
            f"{ref.name} is a model on the shared endpoint {place.component.place.endpoint}: not yet: a dashboard of a "
            "shared endpoint",
            hint="`lmi logs` and `lmi bench` show what it does",
        )
    return Dashboard(name=dashboard_name(ref.name, place.region), body=_body(ref.name, record.current, place))


def write_dashboard(ref: DeploymentRef, made: Dashboard, deps: Dependencies) -> str:
    """Its address in the console. The tag of the endpoint comes first: by it `lmi down` knows that there is one."""
    cloud = deps.cloud(ref.region)
    with locked(ref, deps):
        endpoint = cloud.hosting.endpoint(ref.name)
        if endpoint is None:
            raise NotFound(f"{ref.name}: the endpoint was deleted", hint="run `lmi up` to create it again")
        cloud.hosting.tag(endpoint.arn, ((TAG_DASHBOARD, made.name),))
        cloud.dashboards.write(made.name, json.dumps(made.body), marker=dashboard_marker(ref.name))
    region, domain = cloud.caller.region, _CONSOLES.get(cloud.caller.partition, "")
    return f"https://{region}.{domain}/cloudwatch/home?region={region}#dashboards:name={made.name}" * bool(
        domain
    )


def _body(name: str, generation: Generation, place: SageMakerServing) -> dict[str, Any]:
    note = (
        f"**{name}**: {generation.serving.model} on {generation.instance}, {place.region}. {dashboard_marker(name)}, "
        "which replaces changes that are made here. `lmi down` deletes it."
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
    variant = ("EndpointName", name, "VariantName", place.variant or VARIANT)
    yield _counts(
        "Requests a minute",
        [
            (_INVOCATIONS, "Invocations", variant),
            (_INVOCATIONS, "Invocation4XXErrors", variant),
            (_INVOCATIONS, "Invocation5XXErrors", variant),
        ],
    )
    yield _latency("Time in the container", "ModelLatency", variant, ("p50", "p90", "p99"))
    yield _latency("Overhead of SageMaker", "OverheadLatency", variant, ("p50", "p99"))
    per_instance = _counts(
        "Requests a minute and instance", [(_INVOCATIONS, "InvocationsPerInstance", variant)]
    )
    if place.scaling is not None and place.scaling.invocations:
        line = {"value": place.scaling.invocations, "label": "target of autoscaling"}
        per_instance["annotations"] = {"horizontal": [line]}
    yield per_instance
    yield _use(
        "CPU, memory and disk (%; each CPU core adds up to 100)",
        ("CPUUtilization", "MemoryUtilization", "DiskUtilization"),
        variant,
    )
    machine = instance(generation.instance)
    if machine is None or machine.kind == "gpu":
        yield _use("GPU (%; each GPU adds up to 100)", ("GPUUtilization", "GPUMemoryUtilization"), variant)
    if place.async_output:
        names = ("ApproximateBacklogSize", "InvocationsProcessed", "InvocationFailures", "ExpiredRequests")
        yield _counts(
            "Queue", [(_INVOCATIONS, metric, ("EndpointName", name)) for metric in names], stat="Average"
        )


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


def _use(title: str, metrics: tuple[str, ...], dimensions: tuple[str, ...]) -> Widget:
    return {
        "title": title,
        "stat": "Average",
        "metrics": [[_USE, metric, *dimensions] for metric in metrics],
        "yAxis": {"left": {"min": 0, "showUnits": False}},
    }
