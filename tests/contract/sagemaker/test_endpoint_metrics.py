"""The adapter of CloudWatch's endpoint metrics against the emulator's GetMetricData."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lmi_deploy.aws.metrics import EndpointMetrics
from lmi_deploy.domain.inference_http import HttpRequest
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import Emulated
from tests.support.sagemaker_fixtures import Recorder

HOUR = timedelta(hours=1)


def put(
    aws: Emulated,
    name: str,
    metric: str,
    values: list[float],
    *,
    ago: float = 600.0,
    component: bool = False,
) -> None:
    """In the namespace, with the dimensions and the unit of SageMaker's own metrics."""
    is_use = "Utilization" in metric
    dimensions = {"EndpointName": name, "VariantName": VARIANT}
    item = {
        "MetricName": metric,
        "Dimensions": [
            {"Name": key, "Value": value}
            for key, value in ({"InferenceComponentName": name} if component else dimensions).items()
        ],
        "Timestamp": aws.get("/_clock")["now"] - ago,
        "Values": values,
        "Unit": "Percent" if is_use else "Microseconds" if metric.endswith("Latency") else "None",
    }
    use = "/aws/sagemaker/InferenceComponents" if component else "/aws/sagemaker/Endpoints"
    namespace = use if is_use else "AWS/SageMaker"
    aws.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[item])


def test_the_last_hour_in_one_request(aws: Emulated, recorder: Recorder) -> None:
    name = "measured"
    put(aws, name, "Invocations", [1.0, 1.0], ago=7200)
    put(aws, name, "Invocations", [1.0, 1.0, 1.0])
    put(aws, name, "Invocation4XXErrors", [0.0, 1.0, 0.0])
    put(aws, name, "Invocation5XXErrors", [0.0, 0.0, 0.0])
    put(aws, name, "ModelLatency", [20_000.0, 30_000.0, 900_000.0])
    put(aws, name, "OverheadLatency", [2_500.0])
    put(aws, name, "GPUUtilization", [40.0, 60.0])
    put(aws, name, "GPUMemoryUtilization", [80.0, 91.0])
    found = EndpointMetrics(recorder.access()).recent(name, HOUR)
    assert found == RecentMetrics(
        requests=3,
        errors_4xx=1,
        errors_5xx=0,
        model_latency_p50_ms=30.0,
        model_latency_p99_ms=900.0,
        overhead_latency_p50_ms=2.5,
        overhead_latency_p99_ms=2.5,
        gpu_percent=50.0,
        gpu_memory_percent=91.0,
    )


def test_last_hour_of_an_inference_component(aws: Emulated, recorder: Recorder) -> None:
    """Not that of an endpoint with the same name."""
    name = "one-of-several"
    put(aws, name, "Invocations", [1.0])
    put(aws, name, "Invocations", [1.0, 1.0], component=True)
    put(aws, name, "Invocation5XXErrors", [0.0, 1.0], component=True)
    put(aws, name, "ModelLatency", [20_000.0], component=True)
    put(aws, name, "GPUUtilizationNormalized", [40.0, 60.0], component=True)
    put(aws, name, "GPUMemoryUtilizationNormalized", [80.0], component=True)
    put(aws, name, "MemoryUtilizationNormalized", [33.0, 12.0], component=True)
    found = EndpointMetrics(recorder.access()).recent(name, HOUR, component=True)
    assert found == RecentMetrics(
        requests=2,
        errors_5xx=1,
        model_latency_p50_ms=20.0,
        model_latency_p99_ms=20.0,
        gpu_percent=50.0,
        gpu_memory_percent=80.0,
        memory_percent=33.0,
    )


def test_window_follows_the_clock_of_cloudwatch(aws: Emulated, recorder: Recorder) -> None:
    aws.advance(5 * 3600)
    put(aws, "ahead", "Invocations", [1.0])
    assert EndpointMetrics(recorder.access()).recent("ahead", HOUR).requests == 1


def test_window_that_the_clocks_move_begins_at_a_whole_minute(aws: Emulated, recorder: Recorder) -> None:
    """A value belongs to the start of its minute."""
    aws.advance(90)
    put(aws, "within", "Invocations", [1.0], ago=0.0)
    now = recorder.clock.now()
    found = EndpointMetrics(recorder.access()).between("within", now, now + timedelta(seconds=30))
    assert found.requests == 1


def test_endpoint_without_requests_has_no_values(aws: Emulated, recorder: Recorder) -> None:
    assert EndpointMetrics(recorder.access()).recent("quiet", HOUR) == RecentMetrics()


def test_streamed_response_is_counted(aws: Emulated, cloud: Cloud, serving: str) -> None:
    request = HttpRequest(body=b"{}", headers=(("Content-Type", "application/json"),), stream=True)
    now = datetime.fromtimestamp(aws.get("/_clock")["now"], UTC)
    days = {"since": now - timedelta(days=1), "until": now + timedelta(days=30)}
    assert not cloud.metrics.used([serving], **days)
    assert len([*cloud.hosting.invoke(serving, request, timeout=10.0)]) > 1
    assert cloud.metrics.used([serving], **days) == {serving}
