"""The port Metrics: CloudWatch's metrics of SageMaker's endpoints and inference components, by GetMetricData.

Names, namespaces, dimensions, units and statistics: SageMaker developer guide, "Amazon SageMaker AI metrics in Amazon
CloudWatch" (read in November 2026). Latencies are in microseconds. GPU figures of an endpoint add up over the GPUs of
an instance. Of a component (dimension InferenceComponentName) the invocation metrics have the same names; its use has a
namespace of its own, and is "normalized": 0 to 100 % of what a copy has reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from statistics import fmean, median
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.errors import CloudError

_NAMESPACE: Final = "AWS/SageMaker"
_UTILIZATION: Final = "/aws/sagemaker/Endpoints"
_COMPONENT_UTILIZATION: Final = "/aws/sagemaker/InferenceComponents"
_INVOCATIONS: Final = "Invocations"
_OF_ENDPOINT: Final = ("InvocationsProcessed", "ApproximateBacklogSize")
"""Of asynchronous endpoints, by endpoint alone (SageMaker developer guide, "Monitor asynchronous endpoint")."""
_OF_COMPONENT: Final = (_INVOCATIONS, "InvocationsPerCopy")
_REQUESTED: Final = {
    "requests": (_NAMESPACE, _INVOCATIONS, "Sum"),
    "errors_4xx": (_NAMESPACE, "Invocation4XXErrors", "Sum"),
    "errors_5xx": (_NAMESPACE, "Invocation5XXErrors", "Sum"),
    "model_p50": (_NAMESPACE, "ModelLatency", "p50"),
    "model_p99": (_NAMESPACE, "ModelLatency", "p99"),
    "overhead_p50": (_NAMESPACE, "OverheadLatency", "p50"),
    "overhead_p99": (_NAMESPACE, "OverheadLatency", "p99"),
    "gpu": (_UTILIZATION, "GPUUtilization", "Average"),
    "gpu_memory": (_UTILIZATION, "GPUMemoryUtilization", "Maximum"),
    "memory": (_UTILIZATION, "MemoryUtilization", "Maximum"),
}
"""By the id of the query: namespace, metric, statistic."""
_QUERIES: Final = 500
"""The most in one request (API reference, GetMetricData)."""
_COARSE: Final = timedelta(days=1)
"""A longer window is read by the hour: a request returns at most 100,800 values."""
_WRONG_CLOCK: Final = timedelta(seconds=30)
_Dimensions = tuple[tuple[str, str], ...]


class EndpointMetrics:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "cloudwatch")

    def used(
        self,
        endpoints: Collection[str],
        *,
        since: datetime,
        until: datetime,
        components: Collection[str] = (),
    ) -> frozenset[str]:
        queries = sorted({*self._queries(frozenset(endpoints)), *_of_components(components)})
        found: set[str] = set()
        for first in range(0, len(queries), _QUERIES):
            found.update(self._with_values(queries[first : first + _QUERIES], since, until))
        return frozenset(found)

    def recent(
        self, name: str, span: timedelta, variant: str = VARIANT, *, component: bool = False
    ) -> RecentMetrics:
        # Percentiles of minutes cannot be merged. CloudWatch may divide the span into two periods: the slower one.
        seconds = int(span.total_seconds())
        queries = list(_requested(name, variant, component=component, percentiles=seconds))
        return _metrics(self._measured(name, queries, self._api.clock.now() - span, span), median=max)

    def between(
        self,
        name: str,
        since: datetime,
        until: datetime,
        variant: str = VARIANT,
        *,
        component: bool = False,
    ) -> RecentMetrics:
        # By the minute, so that no period contains a request from outside.
        queries = list(_requested(name, variant, component=component, percentiles=60))
        return _metrics(self._measured(name, queries, since, until - since), median=median)

    def _measured(
        self, name: str, queries: Sequence[Mapping[str, Any]], since: datetime, span: timedelta
    ) -> Iterator[Mapping[str, Any]]:
        """In CloudWatch's time, if the clock of this machine is wrong. Fits one response up to a week: ten metrics, a
        value each minute, of 100,800 values.
        """

        def read(begin: datetime) -> dict[str, Any]:
            given: dict[str, Any] = {
                "MetricDataQueries": queries,
                "StartTime": _down(begin, 60),
                "EndTime": begin + span,
            }
            what = f"metrics of {name}"
            return self._api("get_metric_data", what, needs="MetricDataResults", **given)

        response, now = read(since), self._api.clock.now()
        ahead = (_date(response) or now) - now
        if abs(ahead) > _WRONG_CLOCK:
            response = read(since + ahead)
        return _complete(response["MetricDataResults"])

    def _queries(self, endpoints: frozenset[str]) -> Iterator[tuple[str, _Dimensions]]:
        """Every metric that shows a request. The list of metrics knows variants that lmi did not make; it may lack one
        that is new ("up to 15 minutes", API reference, ListMetrics), so lmi's own are always requested.
        """
        if not endpoints:
            return
        pairs: set[_Dimensions] = {_dimensions(name) for name in endpoints}
        listed = self._api.pages(
            "list_metrics",
            "metrics of endpoints",
            token="NextToken",
            items="Metrics",
            Namespace=_NAMESPACE,
            MetricName=_INVOCATIONS,
        )
        for metric in listed:
            dimensions = tuple(sorted((one["Name"], one["Value"]) for one in metric.get("Dimensions", ())))
            if dict(dimensions).get("EndpointName") in endpoints:
                pairs.add(dimensions)
        yield from ((_INVOCATIONS, dimensions) for dimensions in pairs)
        yield from ((metric, (("EndpointName", name),)) for name in endpoints for metric in _OF_ENDPOINT)

    def _with_values(
        self, queries: Sequence[tuple[str, _Dimensions]], since: datetime, until: datetime
    ) -> Iterator[str]:
        period = 300 if until - since <= _COARSE else 3600
        results = self._api.pages(
            "get_metric_data",
            "requests of endpoints",
            token="NextToken",
            items="MetricDataResults",
            # A value belongs to the start of its period: without the rounding the oldest one would be missed.
            StartTime=_down(since, period),
            EndTime=until,
            MetricDataQueries=[
                _query(f"q{number}", (_NAMESPACE, metric, "Sum"), dimensions, period)
                for number, (metric, dimensions) in enumerate(queries)
            ],
        )
        for result in _complete(results):
            if any(value > 0 for value in result.get("Values", ())):
                dimensions = dict(queries[int(result["Id"].removeprefix("q"))][1])
                yield dimensions.get("EndpointName") or dimensions["InferenceComponentName"]


def _down(moment: datetime, period: int) -> datetime:
    return moment - timedelta(seconds=moment.timestamp() % period)


def _dimensions(endpoint: str, variant: str = VARIANT) -> _Dimensions:
    return (("EndpointName", endpoint), ("VariantName", variant))


def _of_component(name: str) -> _Dimensions:
    return (("InferenceComponentName", name),)


def _of_components(names: Collection[str]) -> Iterator[tuple[str, _Dimensions]]:
    """Every metric that shows a request to one of them. They are always requested, so that none needs to be listed."""
    yield from ((metric, _of_component(name)) for name in names for metric in _OF_COMPONENT)


def _requested(of: str, variant: str, *, component: bool, percentiles: int) -> Iterator[Mapping[str, Any]]:
    """`percentiles`: the seconds of their periods. Sums of minutes are exact, whatever hour they lie in."""
    dimensions = _of_component(of) if component else _dimensions(of, variant)
    for name, (namespace, metric, statistic) in _REQUESTED.items():
        period = percentiles if statistic.startswith("p") else 60
        requested = (namespace, metric, statistic)
        if component and namespace == _UTILIZATION:
            requested = (_COMPONENT_UTILIZATION, f"{metric}Normalized", statistic)
        yield _query(name, requested, dimensions, period)


def _query(
    name: str, requested: tuple[str, str, str], dimensions: _Dimensions, period: int
) -> Mapping[str, Any]:
    namespace, metric, statistic = requested
    named = [{"Name": key, "Value": value} for key, value in dimensions]
    return {
        "Id": name,
        "MetricStat": {
            "Metric": {"Namespace": namespace, "MetricName": metric, "Dimensions": named},
            "Period": period,
            "Stat": statistic,
        },
    }


def _complete(results: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """One without an answer must not look like one without values."""
    for result in results:
        if result.get("StatusCode") not in ("Complete", "PartialData"):
            raise CloudError(
                f"requests of endpoints: CloudWatch returned {result.get('StatusCode')} for one of them",
                hint="run the command again; nothing was changed",
            )
        yield result


def _metrics(
    results: Iterable[Mapping[str, Any]], *, median: Callable[[Sequence[float]], float]
) -> RecentMetrics:
    """`median`: of the medians of several periods. Of their p99 the highest one."""
    found = {each["Id"]: [float(value) for value in each.get("Values", ())] for each in results}
    return RecentMetrics(
        requests=_total(found.get("requests", ())),
        errors_4xx=_total(found.get("errors_4xx", ())),
        errors_5xx=_total(found.get("errors_5xx", ())),
        model_latency_p50_ms=_milliseconds(found.get("model_p50", ()), median),
        model_latency_p99_ms=_milliseconds(found.get("model_p99", ())),
        overhead_latency_p50_ms=_milliseconds(found.get("overhead_p50", ()), median),
        overhead_latency_p99_ms=_milliseconds(found.get("overhead_p99", ())),
        gpu_percent=fmean(found["gpu"]) if found.get("gpu") else None,
        gpu_memory_percent=max(found.get("gpu_memory", ()), default=None),
        memory_percent=max(found.get("memory", ()), default=None),
    )


def _total(values: Sequence[float]) -> int | None:
    return round(sum(values)) if values else None


def _milliseconds(values: Sequence[float], merged: Callable[[Sequence[float]], float] = max) -> float | None:
    return merged(values) / 1000 if values else None


def _date(response: dict[str, Any]) -> datetime | None:
    try:
        return parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return None
