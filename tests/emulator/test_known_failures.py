"""SageMaker's errors in `failures.json` are caused in the emulator, and their patterns match its messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lmi_deploy.catalog.known_failures import failures
from tests.support.emulator_process import ACCOUNT, IMAGE, REGION, Emulated

ROLE = f"arn:aws:iam::{ACCOUNT}:role/execution"
VARIANT = {"VariantName": "AllTraffic", "ModelName": "known", "InstanceType": "ml.m5.large"}
ONE = {"InitialInstanceCount": 1}
FOREIGN = IMAGE.replace("763104351884", "999999999999")
CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
Create = Callable[[Emulated], str]


@pytest.fixture(scope="module", autouse=True)
def _known(aws: Emulated) -> Iterator[None]:
    """A model, a configuration and an endpoint called `known`."""
    uri = aws.upload("artifacts/known", {"serving.properties": "engine=Python\n"})
    aws.model("known", uri)
    aws.endpoint_config("known", "known", InstanceType="ml.m5.large")
    aws.endpoint("known")
    aws.settled("known")
    yield
    aws.no_faults()


def refused(aws: Emulated, operation: str, /, service: str = "sagemaker", **params: Any) -> str:
    client = aws.client(service)
    with pytest.raises(client.exceptions.ClientError) as refusal:
        client._make_api_call(operation, params)
    return str(refusal.value)


def model(aws: Emulated, /, name: str = "new", role: str = ROLE, **container: Any) -> str:
    source = {"S3DataType": "S3Prefix", "CompressionType": "None"}
    uri = container.pop("uri", "s3://weights-and-artifacts/artifacts/known/")
    full = {"Image": IMAGE, "ModelDataSource": {"S3DataSource": {**source, "S3Uri": uri}}, **container}
    return refused(aws, "CreateModel", ModelName=name, ExecutionRoleArn=role, PrimaryContainer=full)


def config(aws: Emulated, /, name: str = "new", **variant: Any) -> str:
    variants = [{**VARIANT, **ONE, **variant}]
    return refused(aws, "CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=variants)


def over_quota(aws: Emulated) -> str:
    aws.post(f"/_quotas/{REGION}", {"ml.g5.48xlarge": 0})
    aws.endpoint_config("large", "known", InstanceType="ml.g5.48xlarge")
    return refused(aws, "CreateEndpoint", EndpointName="large", EndpointConfigName="large")


def without_capacity(aws: Emulated) -> str:
    aws.fault(
        {
            "method": "HOSTING",
            "path": "^/provision/scarce/",
            "do": {"answer": {"status": 400, "body": CAPACITY}},
        }
    )
    aws.endpoint("scarce", "known")
    return str(aws.settled("scarce")["FailureReason"])


def in_progress(aws: Emulated) -> str:
    aws.fault({"method": "HOSTING", "path": "^/provision/stuck/", "do": {"hang": {"seconds": 1_000_000_000}}})
    aws.endpoint("stuck", "known")
    return refused(aws, "UpdateEndpoint", EndpointName="stuck", EndpointConfigName="known")


def deleted_model(aws: Emulated) -> str:
    """The artifact is deleted after the model was created."""
    uri = aws.upload("artifacts/fleeting", {"serving.properties": "engine=Python\n"})
    aws.model("fleeting", uri)
    aws.endpoint_config("fleeting", "fleeting", InstanceType="ml.m5.large")
    aws.client("s3").delete_object(
        Bucket="weights-and-artifacts", Key="artifacts/fleeting/serving.properties"
    )
    aws.endpoint("fleeting")
    return str(aws.settled("fleeting")["FailureReason"])


def too_much(aws: Emulated) -> str:
    body = b"x" * (6_291_456 + 1)
    return refused(aws, "InvokeEndpoint", "sagemaker-runtime", EndpointName="known", Body=body)


CREATED: dict[str, Create] = {
    "quota-endpoint-usage": over_quota,
    "createmodel-could-not-access-model-data": lambda aws: model(aws, uri="s3://weights-and-artifacts/none/"),
    "could-not-assume-role": lambda aws: model(aws, role=f"arn:aws:iam::{ACCOUNT}:role/nobody"),
    "name-regex": lambda aws: config(aws, "under_score"),
    "name-too-long": lambda aws: config(aws, "x" * 64),
    "volume-size-on-nvme-instance": lambda aws: config(aws, InstanceType="ml.g5.xlarge", VolumeSizeInGB=10),
    "image-non-ecr": lambda aws: model(aws, Image="docker.io/vllm/vllm-openai:latest"),
    "image-not-found": lambda aws: model(aws, Image=IMAGE.replace("0.36.0", "9.99.0")),
    "image-uri-invalid": lambda aws: model(aws, Image=IMAGE.partition(":")[0]),
    "ecr-repo-policy": lambda aws: model(aws, Image=FOREIGN),
    "ecr-cross-region": lambda aws: model(aws, Image=IMAGE.replace(REGION, "us-west-2")),
    "instance-type-enum": lambda aws: config(aws, InstanceType="ml.none.large"),
    "endpoint-config-already-exists": lambda aws: config(aws, "known"),
    "endpoint-update-in-progress": in_progress,
    "payload-over-6mb-validation": too_much,
    "insufficient-instance-capacity": without_capacity,
    "model-data-download-failed-role-or-missing": deleted_model,
}


@pytest.mark.parametrize("known", CREATED)
def test_emulated_failure_matches_its_catalog_pattern(aws: Emulated, known: str) -> None:
    message = CREATED[known](aws)
    patterns = next(failure.patterns for failure in failures() if failure.id == known)
    assert any(re.search(pattern.text, message) for pattern in patterns), message
    with suppress(OSError):
        aws.no_faults()
