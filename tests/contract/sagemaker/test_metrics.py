"""The port Metrics on the emulator's CloudWatch: which endpoints had a request, and errors that hide none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lmi_deploy.aws.metrics import EndpointMetrics
from lmi_deploy.errors import CloudError
from tests.integration.sagemaker.test_faults import error_for, on
from tests.support.emulator_process import Emulated
from tests.support.sagemaker_fixtures import Recorder

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def put(
    aws: Emulated, endpoint: str, ago: timedelta, *, metric: str = "Invocations", variant: str = "main"
) -> None:
    dimensions = [{"Name": "EndpointName", "Value": endpoint}]
    if metric == "Invocations":
        dimensions.append({"Name": "VariantName", "Value": variant})
    datum = {"MetricName": metric, "Dimensions": dimensions, "Timestamp": NOW - ago, "Value": 1.0}
    aws.client("cloudwatch").put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])


@pytest.fixture
def metrics(recorder: Recorder) -> EndpointMetrics:
    return EndpointMetrics(recorder.access())


def used(metrics: EndpointMetrics, *names: str) -> list[str]:
    return sorted(metrics.used(names, since=NOW - HOUR, until=NOW))


def test_requests_count_within_the_window_of_any_variant_and_queue(
    aws: Emulated, metrics: EndpointMetrics
) -> None:
    put(aws, "recent", timedelta(minutes=50))
    put(aws, "old", timedelta(minutes=90))
    put(aws, "other-variant", timedelta(minutes=5), variant="canary")
    put(aws, "queued", timedelta(minutes=5), metric="ApproximateBacklogSize")
    names = ("recent", "old", "other-variant", "queued", "nobody")
    assert used(metrics, *names) == ["other-variant", "queued", "recent"]


def test_requests_to_a_component_are_no_requests_to_an_endpoint_of_that_name(
    aws: Emulated, metrics: EndpointMetrics
) -> None:
    dimensions = [{"Name": "InferenceComponentName", "Value": "one-model"}]
    datum = {"MetricName": "Invocations", "Dimensions": dimensions, "Timestamp": NOW, "Value": 1.0}
    aws.client("cloudwatch").put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])
    until = NOW + timedelta(minutes=5)
    found = metrics.used([], components=["one-model", "silent"], since=NOW - HOUR, until=until)
    assert found == {"one-model"}
    assert not metrics.used(["one-model"], components=["silent"], since=NOW - HOUR, until=until)


def test_more_endpoints_than_fit_one_request(aws: Emulated, metrics: EndpointMetrics) -> None:
    names = [f"many-{number:03d}" for number in range(400)]
    put(aws, names[-1], timedelta(minutes=5))
    assert used(metrics, *names) == [names[-1]]


def test_failing_metrics_are_an_error_and_not_an_empty_result(
    aws: Emulated, metrics: EndpointMetrics
) -> None:
    aws.fault(on("GetMetricData", error_for("InternalServiceFault", status=500), times=None))
    with pytest.raises(CloudError):
        used(metrics, "recent")
