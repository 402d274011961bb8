"""The port Metrics: CloudWatch's metrics of SageMaker's endpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.errors import CloudError

_NAMESPACE: Final = "AWS/SageMaker"
_INVOCATIONS: Final = "Invocations"
_OF_ENDPOINT: Final = ("InvocationsProcessed", "ApproximateBacklogSize")
"""Of asynchronous endpoints, by endpoint alone (SageMaker developer guide, "Monitor asynchronous endpoint")."""
_QUERIES: Final = 500
"""The most in one request (API reference, GetMetricData)."""
_COARSE: Final = timedelta(days=1)
"""A longer window is read by the hour: a request returns at most 100,800 values."""
_Dimensions = tuple[tuple[str, str], ...]


class EndpointMetrics:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "cloudwatch")

    def used(self, endpoints: Collection[str], *, since: datetime, until: datetime) -> frozenset[str]:
        queries = sorted(self._queries(frozenset(endpoints)))
        found: set[str] = set()
        for first in range(0, len(queries), _QUERIES):
            found.update(self._with_values(queries[first : first + _QUERIES], since, until))
        return frozenset(found)

    def _queries(self, endpoints: frozenset[str]) -> Iterator[tuple[str, _Dimensions]]:
        """Every metric that shows a request. The list of metrics knows variants that lmi did not make; it may lack one
        that is new ("up to 15 minutes", API reference, ListMetrics), so lmi's own are always requested.
        """
        pairs: set[_Dimensions] = {(("EndpointName", name), ("VariantName", VARIANT)) for name in endpoints}
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
            StartTime=since - timedelta(seconds=since.timestamp() % period),
            EndTime=until,
            MetricDataQueries=[_query(number, *query, period) for number, query in enumerate(queries)],
        )
        for result in results:
            if result.get("StatusCode") not in ("Complete", "PartialData"):
                raise CloudError(
                    f"requests of endpoints: CloudWatch returned {result.get('StatusCode')} for one of them",
                    hint="run the command again; nothing was changed",
                )
            if any(value > 0 for value in result.get("Values", ())):
                yield dict(queries[int(result["Id"].removeprefix("q"))][1])["EndpointName"]


def _query(number: int, metric: str, dimensions: _Dimensions, period: int) -> Mapping[str, Any]:
    named = [{"Name": name, "Value": value} for name, value in dimensions]
    return {
        "Id": f"q{number}",
        "MetricStat": {
            "Metric": {"Namespace": _NAMESPACE, "MetricName": metric, "Dimensions": named},
            "Period": period,
            "Stat": "Sum",
        },
    }
