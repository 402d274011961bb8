"""Invocations through boto3: responses, streams in botocore's own event-stream decoder, limits, errors."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.server.handlers import MANY_WAYS
from tests.support.emulator_process import Emulated

MAX_BYTES = 6_291_456
NAME = "talks"


@pytest.fixture(scope="module")
def runtime(hosting: Emulated) -> Any:
    files = {"model.py": MANY_WAYS, "serving.properties": "engine=Python\nminWorkers=2\nmaxWorkers=2\n"}
    hosting.model(NAME, hosting.upload("artifacts/talks", files))
    hosting.endpoint_config(NAME, NAME)
    hosting.endpoint(NAME)
    assert hosting.settled(NAME)["EndpointStatus"] == "InService"
    return hosting.client("sagemaker-runtime")


def call(runtime: Any, body: Any, **more: Any) -> Any:
    requests = {"EndpointName": NAME, "ContentType": "application/json", "Body": json.dumps(body), **more}
    return runtime.invoke_endpoint(**requests)


def test_invocation_returns_body_and_variant(runtime: Any) -> None:
    response = call(runtime, {"do": "echo", "text": "hallo"}, TargetVariant="AllTraffic")
    assert response["Body"].read() == b"hallo"
    assert response["InvokedProductionVariant"] == "AllTraffic"


def test_stream_arrives_in_parts_while_it_is_generated(runtime: Any) -> None:
    body = json.dumps({"do": "stream", "count": 5, "delay": 0.05})
    response = runtime.invoke_endpoint_with_response_stream(
        EndpointName=NAME, ContentType="application/json", Body=body
    )
    parts = [event["PayloadPart"]["Bytes"] for event in response["Body"]]
    assert response["ContentType"] == "application/jsonlines"
    assert len(parts) > 1
    lines = [json.loads(line)["outputs"] for line in b"".join(parts).splitlines()]
    assert lines == ["t0", "t1", "t2", "t3", "t4"]


def test_model_error_has_original_status_and_message(runtime: Any) -> None:
    for invoke in (runtime.invoke_endpoint, runtime.invoke_endpoint_with_response_stream):
        with pytest.raises(runtime.exceptions.ModelError) as refusal:
            invoke(EndpointName=NAME, ContentType="application/json", Body=b'{"do": "what"}')
        description = refusal.value.response
        assert description["ResponseMetadata"]["HTTPStatusCode"] == 424
        assert description["OriginalStatusCode"] in (400, 424, 500)
        assert description["Error"]["Message"].startswith("Received ")
        assert "from primary with message" in description["Error"]["Message"]
        assert "/aws/sagemaker/Endpoints/talks in account 123456789012" in description["Error"]["Message"]


def test_request_and_response_are_limited_to_six_megabytes(runtime: Any) -> None:
    full = runtime.invoke_endpoint(
        EndpointName=NAME,
        ContentType="application/json",
        Body=json.dumps({"do": "echo", "text": "x" * (MAX_BYTES - 40)}),
    )
    assert len(full["Body"].read()) == MAX_BYTES - 40
    with pytest.raises(runtime.exceptions.ClientError) as refusal:
        runtime.invoke_endpoint(EndpointName=NAME, Body=b"x" * (MAX_BYTES + 1))
    error = refusal.value.response["Error"]
    assert error["Code"] == "ValidationError"
    assert (
        f"at 'body' failed to satisfy constraint: Member must have length less than or equal to {MAX_BYTES}"
        in (error["Message"])
    )
    with pytest.raises(runtime.exceptions.ModelError, match="exceeded maximum"):
        call(runtime, {"do": "big", "size": MAX_BYTES + 1})


def test_invocation_times_out_after_sixty_seconds(hosting: Emulated, runtime: Any) -> None:
    turn = threading.Timer(0.4, hosting.advance, (61,))
    turn.start()
    with pytest.raises(runtime.exceptions.ModelError) as refusal:
        call(runtime, {"do": "sleep", "seconds": 5})
    turn.join()
    assert refusal.value.response["OriginalStatusCode"] == 0
    assert "Your invocation timed out while waiting for a response from container primary" in str(
        refusal.value
    )


@pytest.mark.parametrize("name", ["nothing-here", "-no-name-"])
def test_invoking_a_missing_endpoint_is_a_validation_error(runtime: Any, name: str) -> None:
    with pytest.raises(runtime.exceptions.ClientError) as refusal:
        runtime.invoke_endpoint(EndpointName=name, Body=b"{}")
    assert refusal.value.response["Error"]["Code"] == "ValidationError"


def test_invoking_a_missing_variant_is_a_validation_error(runtime: Any) -> None:
    with pytest.raises(runtime.exceptions.ClientError, match="Variant other not found"):
        call(runtime, {"do": "echo", "text": ""}, TargetVariant="other")


def test_unsigned_invocation_is_refused(hosting: Emulated) -> None:
    with pytest.raises(OSError, match="403"):
        hosting.post(f"/endpoints/{NAME}/invocations", {})


def test_invocations_appear_in_cloudwatch_metrics(hosting: Emulated, runtime: Any) -> None:
    watch = hosting.client("cloudwatch")
    call(runtime, {"do": "echo", "text": "x"})
    now = hosting.get("/_clock")["now"]
    dimensions = [{"Name": "EndpointName", "Value": NAME}, {"Name": "VariantName", "Value": "AllTraffic"}]
    requests = {"Namespace": "AWS/SageMaker", "Dimensions": dimensions}
    window = {"StartTime": now - 3600, "EndTime": now + 60}
    description = watch.get_metric_statistics(
        MetricName="Invocations", **requests, **window, Period=3600, Statistics=["Sum"]
    )
    assert sum(point["Sum"] for point in description["Datapoints"]) >= 1
    stat = {"Metric": {"MetricName": "ModelLatency", **requests}, "Period": 3600, "Stat": "p50"}
    (result,) = watch.get_metric_data(MetricDataQueries=[{"Id": "a", "MetricStat": stat}], **window)[
        "MetricDataResults"
    ]
    assert all(value > 0 for value in result["Values"])
    assert len(result["Values"]) == len(result["Timestamps"]) >= 1
    names = {item["MetricName"] for item in watch.list_metrics(Namespace="AWS/SageMaker")["Metrics"]}
    assert {"Invocations", "ModelLatency", "Invocation5XXErrors"} <= names


@pytest.fixture
def faults(hosting: Emulated) -> Any:
    yield hosting.fault
    hosting.no_faults()


def test_fault_rule_makes_the_container_fail(runtime: Any, faults: Any) -> None:
    rule = {"method": "HOSTING", "path": f"^/invoke/{NAME}/", "times": 2}
    faults({**rule, "do": {"answer": {"status": 507, "body": "CUDA out of memory"}}})
    for invoke in (runtime.invoke_endpoint, runtime.invoke_endpoint_with_response_stream):
        with pytest.raises(runtime.exceptions.ModelError) as refusal:
            invoke(EndpointName=NAME, Body=b"{}")
        assert refusal.value.response["OriginalStatusCode"] == 507
        assert refusal.value.response["OriginalMessage"] == "CUDA out of memory"
    assert call(runtime, {"do": "echo", "text": "well again"})["Body"].read() == b"well again"


def test_broken_stream_is_a_model_stream_error(runtime: Any, faults: Any) -> None:
    from botocore.exceptions import EventStreamError

    faults({"method": "HOSTING", "path": f"^/stream/{NAME}/", "do": {"cut": {"after": 30}}})
    body = json.dumps({"do": "stream", "count": 50, "delay": 0.02})
    response = runtime.invoke_endpoint_with_response_stream(
        EndpointName=NAME, ContentType="application/json", Body=body
    )
    parts: list[bytes] = []
    with pytest.raises(EventStreamError, match="ModelStreamError"):
        parts.extend(event["PayloadPart"]["Bytes"] for event in response["Body"])
    response["Body"].close()
    assert len(b"".join(parts)) == 30
