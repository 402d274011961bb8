"""Requests to an endpoint whose containers are real model servers: responses, streams, model errors, limits."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator

import pytest

from lmi_deploy.aws.sagemaker.runtime import MOST_BYTES
from lmi_deploy.composition.aws import open_cloud
from lmi_deploy.domain.inference_http import ADAPTER_HEADER, HttpRequest, ResponseHead
from lmi_deploy.emulator.runtime.invocation import MAX_BYTES
from lmi_deploy.emulator.wire.service_models import service_model
from lmi_deploy.errors import AccessError, CloudError, NotFound, Overdue, UsageRefused
from lmi_deploy.ports.cloud import Cloud
from tests.server.handlers import MANY_WAYS
from tests.support.emulator_process import Emulated, emulator
from tests.support.frozen_clock import FrozenClock
from tests.support.sagemaker_fixtures import FULL_SPEED, TAGS, config_settings, model_settings

NAME = "talks"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("hosting"), *FULL_SPEED, containers=True) as running:
        yield running


@pytest.fixture
def talking(aws: Emulated, chain: None) -> Iterator[Cloud]:
    cloud = open_cloud("", FrozenClock(), os.environ)
    if cloud.hosting.endpoint(NAME) is None:
        files = {"model.py": MANY_WAYS, "serving.properties": "engine=Python\nminWorkers=2\nmaxWorkers=2\n"}
        artifact = aws.upload("artifacts/talks", files)
        cloud.hosting.create_model(NAME, model_settings(aws, artifact=artifact), TAGS)
        cloud.hosting.create_endpoint_config(NAME, config_settings(NAME), TAGS)
        cloud.hosting.create_endpoint(NAME, NAME, TAGS)
    assert aws.settled(NAME)["EndpointStatus"] == "InService"
    yield cloud
    aws.no_faults()


def request(body: object, *headers: tuple[str, str], stream: bool = False) -> HttpRequest:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpRequest(body=content, headers=(("Content-Type", "application/json"), *headers), stream=stream)


def invoke(
    cloud: Cloud, body: object, *headers: tuple[str, str], stream: bool = False
) -> tuple[ResponseHead, list[bytes]]:
    head, *parts = cloud.hosting.invoke(NAME, request(body, *headers, stream=stream), timeout=70)
    assert isinstance(head, ResponseHead)
    return head, [part for part in parts if isinstance(part, bytes)]


def test_response_has_status_reason_and_body(talking: Cloud) -> None:
    head, parts = invoke(talking, {"do": "echo", "text": "hallo"})
    assert (head.status, head.reason, b"".join(parts)) == (200, "OK", b"hallo")
    assert head.header("Content-Type")


@pytest.mark.parametrize("stream", [False, True])
def test_an_adapter_reaches_the_handler_under_the_name_of_its_header(talking: Cloud, stream: bool) -> None:
    body = {"do": "header", "name": ADAPTER_HEADER}
    attributes = ("X-Amzn-SageMaker-Custom-Attributes", "other=1")
    _, parts = invoke(talking, body, attributes, (ADAPTER_HEADER, "sql"), stream=stream)
    assert b"".join(parts) == b"sql"


def test_stream_arrives_in_parts_while_it_is_generated(talking: Cloud) -> None:
    head, parts = invoke(talking, {"do": "stream", "count": 5, "delay": 0.05}, stream=True)
    assert head.header("content-type") == "application/jsonlines"
    assert len(parts) > 1
    assert [json.loads(line)["outputs"] for line in b"".join(parts).splitlines()] == [
        f"t{number}" for number in range(5)
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_model_error_is_returned_with_status_and_body(aws: Emulated, talking: Cloud, stream: bool) -> None:
    rule = {"method": "HOSTING", "path": f"^/invoke/{NAME}/"}
    aws.fault({**rule, "do": {"answer": {"status": 507, "body": "CUDA out of memory"}}})
    head, parts = invoke(talking, {"do": "echo", "text": "x"}, stream=stream)
    assert (head.status, b"".join(parts)) == (507, b"CUDA out of memory")
    assert head.reason == "Insufficient Storage"


@pytest.mark.parametrize("operation", ["InvokeEndpoint", "InvokeEndpointWithResponseStream"])
def test_limit_of_a_request_is_that_of_the_service_model(operation: str) -> None:
    body = service_model("sagemaker-runtime").operation_model(operation).input_shape.members["Body"]
    assert body.metadata["max"] == MOST_BYTES == MAX_BYTES


def test_request_over_six_megabytes_is_not_sent(talking: Cloud) -> None:
    text = "x" * (MOST_BYTES - 40)
    assert sum(map(len, invoke(talking, {"do": "echo", "text": text})[1])) == len(text)
    with pytest.raises(UsageRefused, match=r"6,291,457 bytes; SageMaker accepts at most 6,291,456") as caught:
        invoke(talking, b"x" * (MOST_BYTES + 1))
    assert "S3" in caught.value.hint


def test_timeout_after_sixty_seconds_is_explained(aws: Emulated, talking: Cloud) -> None:
    turn = threading.Timer(0.4, aws.advance, (61,))
    turn.start()
    with pytest.raises(Overdue, match="60 s") as caught:
        invoke(talking, {"do": "sleep", "seconds": 5})
    turn.join()
    assert "--stream" in caught.value.hint


def test_broken_stream_reports_how_much_arrived(aws: Emulated, talking: Cloud) -> None:
    aws.fault({"method": "HOSTING", "path": f"^/stream/{NAME}/", "do": {"cut": {"after": 30}}})
    response = talking.hosting.invoke(
        NAME, request({"do": "stream", "count": 50, "delay": 0.02}, stream=True), timeout=70
    )
    received: list[ResponseHead | bytes] = []
    with pytest.raises(CloudError, match=r"ended early after 30 bytes: .*ModelStreamError") as caught:
        received.extend(response)
    assert sum(len(part) for part in received if isinstance(part, bytes)) == 30
    assert "lmi logs" in caught.value.hint


def test_truncated_response_is_an_error(aws: Emulated, talking: Cloud) -> None:
    aws.fault({"path": f"/endpoints/{NAME}/invocations$", "do": {"cut": {"after": 10}}})
    with pytest.raises(CloudError, match="the response ended early"):
        invoke(talking, {"do": "echo", "text": "x" * 1000})


def test_invoking_a_missing_endpoint_is_not_found(talking: Cloud) -> None:
    with pytest.raises(NotFound, match="endpoint nobody: SageMaker cannot invoke it"):
        list(talking.hosting.invoke("nobody", request({}), timeout=10))


def test_invocation_is_retried_only_when_throttled(aws: Emulated, talking: Cloud) -> None:
    body = '{"message": "Rate exceeded"}'
    throttled = {
        "answer": {"status": 429, "body": body, "headers": {"x-amzn-ErrorType": "ThrottlingException"}}
    }
    aws.fault({"path": f"/endpoints/{NAME}/invocations$", "do": throttled, "times": 2})
    assert invoke(talking, {"do": "echo", "text": "x"})[1] == [b"x"]
    aws.fault({"path": f"/endpoints/{NAME}/invocations$", "do": "drop"})
    with pytest.raises(CloudError, match=r"the connection to .* broke"):
        invoke(talking, {"do": "echo", "text": "x"})


def test_denied_invocation_is_reported(aws: Emulated, talking: Cloud) -> None:
    response = {"x-amzn-ErrorType": "AccessDeniedException"}
    aws.fault(
        {
            "path": "/invocations$",
            "do": {"answer": {"status": 403, "body": '{"Message": ""}', "headers": response}},
        }
    )
    with pytest.raises(AccessError, match="may not sagemaker:InvokeEndpoint"):
        invoke(talking, {})


def test_address_is_the_invocation_url(aws: Emulated, talking: Cloud) -> None:
    assert talking.hosting.address(NAME) == f"{aws.url}/endpoints/{NAME}/invocations"


def test_container_log_is_read_completely(aws: Emulated, talking: Cloud) -> None:
    invoke(talking, {"do": "echo", "text": "x"})
    group = talking.logs.group(NAME)
    assert group == f"/aws/sagemaker/Endpoints/{NAME}"
    assert len(list(talking.logs.lines(group))) > 3
