"""Bad requests are refused as AWS refuses them: by the service model and by the checks of the service."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import pytest

from lmi_deploy.emulator.operation_table import OPERATIONS
from tests.emulator.bad_requests import bad_requests
from tests.support.emulator_process import ACCOUNT, IMAGE, TIMEOUT, Emulated

SAGEMAKER = tuple(OPERATIONS["sagemaker"])
LEAST = 120


def raw(
    aws: Emulated, body: bytes = b"{}", /, service: str = "", **headers: str
) -> tuple[int, dict[str, Any]]:
    """Sends one request unchanged, signed if a service is named; returns its status and JSON."""
    connection = connected(urlsplit(aws.url).netloc)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if service:
        named = aws.signed(service, body, named)
    connection.request("POST", "/", body, named)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


@pytest.fixture(scope="module", autouse=True)
def _closed(aws: Emulated) -> Iterator[None]:
    yield
    connected(urlsplit(aws.url).netloc).close()


@cache
def connected(place: str) -> http.client.HTTPConnection:
    """One connection for all requests of this file."""
    connection = http.client.HTTPConnection(place, timeout=TIMEOUT)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def refusal(client: Any, operation: str, params: Any) -> tuple[str, str]:
    """Code and message of the error; empty if there is none."""
    try:
        client._make_api_call(operation, params)
    except client.exceptions.ClientError as exc:
        return exc.response["Error"]["Code"], exc.response["Error"]["Message"]
    return "", ""


@pytest.mark.parametrize("operation", SAGEMAKER)
def test_requests_that_violate_the_service_model_are_refused(aws: Emulated, operation: str) -> None:
    wrong = []
    for bad in bad_requests("sagemaker", (operation,)):
        # As JSON and not through botocore, which would refuse to send most of them.
        target = f"SageMaker.{operation}"
        _, description = raw(aws, json.dumps(bad.params).encode(), service="sagemaker", X_Amz_Target=target)
        code, message = description.get("__type"), description.get("message", "")
        if code != bad.code or bad.phrase not in message:
            wrong.append(f"{bad}\n    {bad.params}\n    got {code}: {message}")
    assert not wrong, "\n".join(wrong[:5])


def test_table_of_bad_requests_has_the_minimum_length() -> None:
    assert len(list(bad_requests("sagemaker", SAGEMAKER))) >= LEAST


@pytest.fixture(scope="module")
def uri(aws: Emulated) -> str:
    return aws.upload("artifacts/one", {"serving.properties": "engine=Python\n"})


def model(aws: Emulated, uri: str, **changes: Any) -> dict[str, Any]:
    source = {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}
    container = {"Image": IMAGE, "ModelDataSource": {"S3DataSource": source}, **changes}
    container = {key: value for key, value in container.items() if value is not None}
    return {"ModelName": "one", "ExecutionRoleArn": aws.role(), "PrimaryContainer": container}


IMAGES = {
    "docker.io/vllm/vllm-openai:latest": 'Using non-ECR image "{image}" without Vpc repository access mode is not '
    "supported.",
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference": 'ECR image "{image}" is invalid.',
    IMAGE.replace(
        "us-east-1", "us-west-2"
    ): 'Region of "{image}" does not match expected region of us-east-1. '
    "Cross region ECR image pulls are not allowed.",
    IMAGE.replace("763104351884", "999999999999"): "The repository of your image {image} does not grant "
    "ecr:GetDownloadUrlForLayer, ecr:BatchGetImage, ecr:BatchCheckLayerAvailability permission to "
    "sagemaker.amazonaws.com service principal.",
    IMAGE.replace("0.36.0", "9.99.0"): "Requested image {image} not found.",
}


@pytest.mark.parametrize("image", IMAGES)
def test_image_that_cannot_be_pulled_is_refused(aws: Emulated, uri: str, image: str) -> None:
    messages = refusal(aws.client("sagemaker"), "CreateModel", model(aws, uri, Image=image))
    assert messages == ("ValidationException", IMAGES[image].format(image=image))


@pytest.mark.parametrize("image", [f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/mine:1", f"{IMAGE}-v1.4"])
def test_image_that_can_be_pulled_is_accepted(aws: Emulated, uri: str, image: str) -> None:
    name = f"good-{abs(hash(image))}"
    assert refusal(
        aws.client("sagemaker"), "CreateModel", {**model(aws, uri, Image=image), "ModelName": name}
    ) == (
        "",
        "",
    )


def test_role_that_is_missing_or_does_not_trust_sagemaker_is_refused(aws: Emulated, uri: str) -> None:
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    for role in (f"arn:aws:iam::{ACCOUNT}:role/nobody", aws.role("stranger", trust=trust)):
        messages = refusal(
            aws.client("sagemaker"), "CreateModel", {**model(aws, uri), "ExecutionRoleArn": role}
        )
        assert messages == (
            "ValidationException",
            f"Could not assume role {role}. Please ensure that the role exists and allows principal "
            "'sagemaker.amazonaws.com' to assume the role.",
        )


def test_model_data_that_is_missing_or_unreadable_is_refused(aws: Emulated, uri: str) -> None:
    narrow = aws.role("narrow", resources="arn:aws:s3:::elsewhere/*")
    absent = model(aws, uri.replace("one", "none"))
    for params in (absent, {**model(aws, uri), "ExecutionRoleArn": narrow}):
        code, message = refusal(aws.client("sagemaker"), "CreateModel", params)
        assert code == "ValidationException"
        assert message.startswith("Could not access model data at s3://")


CLASHES = [
    {"ModelDataUrl": "s3://bucket/model.tar.gz"},
    {"Image": None},
]


@pytest.mark.parametrize("changes", CLASHES)
def test_contradictory_container_settings_are_refused(
    aws: Emulated, uri: str, changes: dict[str, Any]
) -> None:
    code, _ = refusal(aws.client("sagemaker"), "CreateModel", model(aws, uri, **changes))
    assert code == "ValidationException"


def test_environment_value_over_1024_characters_is_refused(aws: Emulated, uri: str) -> None:
    params = model(aws, uri, Environment={"KEY": "x" * 1025})
    code, message = refusal(aws.client("sagemaker"), "CreateModel", params)
    assert code == "ValidationException"
    assert "at 'primaryContainer.environment' failed to satisfy constraint: Map value must satisfy" in message


VOLUMES = {"ml.g5.xlarge": True, "ml.g4dn.xlarge": True, "ml.p4d.24xlarge": True, "ml.inf2.xlarge": False}


@pytest.mark.parametrize("kind", VOLUMES)
def test_volume_is_refused_for_instances_with_local_disks(aws: Emulated, uri: str, kind: str) -> None:
    client = aws.client("sagemaker")
    refusal(client, "CreateModel", {**model(aws, uri), "ModelName": "voluminous"})
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": "voluminous",
        "InstanceType": kind,
        "InitialInstanceCount": 1,
        "VolumeSizeInGB": 100,
    }
    name = kind.replace(".", "-").replace("ml-", "")
    messages = refusal(
        client, "CreateEndpointConfig", {"EndpointConfigName": name, "ProductionVariants": [variant]}
    )
    message = f"VolumeSize parameter is not allowed for the selected Instance type {kind}"
    assert messages == (("ValidationException", message) if VOLUMES[kind] else ("", ""))


def test_missing_or_wrong_signature_is_refused(aws: Emulated) -> None:
    target = "SageMaker.ListModels"
    assert raw(aws, X_Amz_Target=target)[1]["__type"] == "MissingAuthenticationTokenException"
    assert raw(aws)[1]["__type"] == "MissingAuthenticationTokenException"
    invalid = raw(aws, X_Amz_Target=target, Authorization="AWS4-HMAC-SHA256 nothing")
    assert invalid[1]["__type"] == "IncompleteSignatureException"
    other = raw(aws, X_Amz_Target=target, service="s3")
    assert other == (403, {"__type": "InvalidSignatureException", "message": other[1]["message"]})
    assert raw(aws, X_Amz_Target=target, service="sagemaker")[0] == 200


def test_unknown_and_unsupported_operations_are_refused(aws: Emulated) -> None:
    assert raw(aws, X_Amz_Target="SageMaker.MakeCoffee", service="sagemaker")[1]["__type"] == (
        "UnknownOperationException"
    )
    status, description = raw(aws, X_Amz_Target="SageMaker.ListTrainingJobs", service="sagemaker")
    assert (status, description["__type"]) == (501, "NotImplemented")
