"""CloudWatch metrics: invocation metrics of hosting and values that clients put, returned as statistics of periods."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.wire.errors import ApiError

MAX_POINTS: Final = 100_000
"""Values of one metric; older ones are forgotten."""
MAX_QUERIES: Final = 500
"""API reference, GetMetricData: "as many as 500 MetricDataQuery structures"."""
Dimensions = tuple[tuple[str, str], ...]
Name = tuple[str, str, str, Dimensions]
"""Region, namespace, metric, dimensions."""


@dataclass(frozen=True, slots=True)
class Point:
    at: float
    value: float
    unit: str


def _series() -> defaultdict[Name, deque[Point]]:
    return defaultdict(lambda: deque(maxlen=MAX_POINTS))


@dataclass(slots=True)
class CloudWatchMetrics:
    """In memory only."""

    latest: float = 0.0
    """When the last of all values was measured."""
    _points: defaultdict[Name, deque[Point]] = field(default_factory=_series)

    def put(self, name: Name, point: Point) -> None:
        self._points[name].append(point)
        self.latest = max(self.latest, point.at)

    def names(self, region: str) -> list[Name]:
        return sorted(name for name in self._points if name[0] == region)

    def periods(self, name: Name, start: float, end: float, period: int) -> dict[float, list[Point]]:
        """The values of each period that has some, by the period's start."""
        existing: dict[float, list[Point]] = defaultdict(list)
        for point in self._points.get(name, ()):
            if start <= point.at < end:
                existing[point.at - point.at % period].append(point)
        return dict(sorted(existing.items()))


def put(context: EmulatorContext, request: ApiRequest) -> None:
    for item in request.params.get("MetricData", ()):
        name = (request.region, request.params["Namespace"], item["MetricName"], dimensions_of(item))
        at = float(item.get("Timestamp", context.clock.now()))
        values = item.get("Values") or [item.get("Value", 0.0)]
        for value, count in zip(values, item.get("Counts") or [1] * len(values), strict=False):
            for _ in range(int(count)):
                context.metrics.put(name, Point(at, float(value), item.get("Unit", "None")))


def statistics(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    name = (request.region, params["Namespace"], params["MetricName"], dimensions_of(params))
    requested = [*params.get("Statistics", ()), *params.get("ExtendedStatistics", ())]
    if not requested:
        raise ApiError(
            "InvalidParameterCombination",
            "Must specify either Statistics or ExtendedStatistics for the metric",
        )
    found = context.metrics.periods(
        name, float(params["StartTime"]), float(params["EndTime"]), params["Period"]
    )
    messages = [
        {
            "Timestamp": at,
            "Unit": points[0].unit,
            **{stat: statistic(stat, points) for stat in requested if not stat.startswith("p")},
            "ExtendedStatistics": {
                stat: statistic(stat, points) for stat in requested if stat.startswith("p")
            }
            or None,
        }
        for at, points in found.items()
    ]
    return {"Label": params["MetricName"], "Datapoints": messages}


def results(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    if len(request.params["MetricDataQueries"]) > MAX_QUERIES:
        raise ApiError(
            "ValidationError", "The collection MetricDataQueries must not have a size greater than 500."
        )
    return {
        "MetricDataResults": [
            _result(context, request, query) for query in request.params["MetricDataQueries"]
        ]
    }


def _result(context: EmulatorContext, request: ApiRequest, query: Mapping[str, Any]) -> Mapping[str, Any]:
    if "MetricStat" not in query:
        raise ApiError("ValidationError", "The emulator does not calculate metric expressions.")
    requested, metric = query["MetricStat"], query["MetricStat"]["Metric"]
    name = (request.region, metric["Namespace"], metric["MetricName"], dimensions_of(metric))
    start, end = float(request.params["StartTime"]), float(request.params["EndTime"])
    found = list(context.metrics.periods(name, start, end, requested["Period"]).items())
    if request.params.get("ScanBy", "TimestampDescending") == "TimestampDescending":
        found.reverse()
    return {
        "Id": query["Id"],
        "Label": query.get("Label", metric["MetricName"]),
        "Timestamps": [at for at, _ in found],
        "Values": [statistic(requested["Stat"], points) for _, points in found],
        "StatusCode": "Complete",
    }


def listed(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    requested = [(item["Name"], item.get("Value")) for item in params.get("Dimensions", ())]
    return {
        "Metrics": [
            {
                "Namespace": namespace,
                "MetricName": metric,
                "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions],
            }
            for _, namespace, metric, dimensions in context.metrics.names(request.region)
            if params.get("Namespace") in (None, namespace)
            and params.get("MetricName") in (None, metric)
            and all(any(key == k and value in (None, v) for k, v in dimensions) for key, value in requested)
        ]
    }


def statistic(stat: str, points: list[Point]) -> float:
    values = sorted(point.value for point in points)
    simple = {
        "SampleCount": float(len(values)),
        "Sum": sum(values),
        "Average": sum(values) / len(values),
        "Minimum": values[0],
        "Maximum": values[-1],
    }
    if stat in simple:
        return simple[stat]
    try:
        share = float(stat.removeprefix("p")) / 100.0
    except ValueError as exc:
        raise ApiError("InvalidParameterValue", f"The statistic {stat} is not valid.") from exc
    return values[min(len(values) - 1, int(share * len(values)))]


def dimensions_of(item: Mapping[str, Any]) -> Dimensions:
    return tuple(sorted((one["Name"], one["Value"]) for one in item.get("Dimensions", ())))


OPERATIONS: Final[Mapping[str, Operation]] = {
    "PutMetricData": put,
    "GetMetricStatistics": statistics,
    "GetMetricData": results,
    "ListMetrics": listed,
}
