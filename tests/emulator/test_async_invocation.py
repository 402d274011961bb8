"""InvokeEndpointAsync through boto3: what is written, where, with whose right, and what is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.support.emulator_process import BUCKET, Emulated

BUCKET_ARN = f"arn:aws:s3:::{BUCKET}"


def endpoint(aws: Emulated, name: str, *actions: str, client: Any = None) -> Any:
    """In service; it answers with the request itself. Its role may do these actions."""
    settings = created(aws, name, *actions, client=client)
    assert aws.settled(name)["AsyncInferenceConfig"] == settings
    aws.client("s3").put_object(Bucket=BUCKET, Key="in/1", Body=b"question")
    return aws.client("sagemaker-runtime")


def created(aws: Emulated, name: str, *actions: str, client: Any = None) -> dict[str, Any]:
    """The AsyncInferenceConfig of an endpoint that is being created."""
    role = aws.role(f"role-{name}", resources=[BUCKET_ARN, f"{BUCKET_ARN}/artifacts/*"])
    if actions:
        statement = {"Effect": "Allow", "Action": list(actions), "Resource": f"arn:aws:s3:::{BUCKET}/*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        aws.client("iam").put_role_policy(RoleName=f"role-{name}", PolicyName="p", PolicyDocument=policy)
    aws.model(name, aws.upload(f"artifacts/{name}", {"model.py": ""}), role=role)
    out = {"S3OutputPath": f"s3://{BUCKET}/{name}/out/", "S3FailurePath": f"s3://{BUCKET}/{name}/failed/"}
    settings: dict[str, Any] = {"OutputConfig": out, **({"ClientConfig": client} if client else {})}
    variant = {
        "VariantName": "main",
        "ModelName": name,
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": 1,
    }
    aws.client("sagemaker").create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[variant], AsyncInferenceConfig=settings
    )
    aws.endpoint(name)
    return settings


def content(aws: Emulated, address: str, *, wait: float = 10.0) -> bytes | None:
    key, end = address.removeprefix(f"s3://{BUCKET}/"), time.monotonic() + wait
    while True:
        if aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=key).get("Contents"):
            body: bytes = aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()
            return body
        if time.monotonic() > end:
            return None
        time.sleep(0.02)


def test_response_is_written_to_the_output(aws: Emulated) -> None:
    runtime = endpoint(aws, "queue", "s3:GetObject", "s3:PutObject")
    response = runtime.invoke_endpoint_async(
        EndpointName="queue",
        InputLocation=f"s3://{BUCKET}/in/1",
        InferenceId="mine",
        S3OutputPathExtension="today",
        Filename="answer",
    )
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert response["InferenceId"] == "mine"
    assert response["OutputLocation"] == f"s3://{BUCKET}/queue/out/today/answer.out"
    assert content(aws, response["OutputLocation"]) == b"question"
    assert content(aws, response["FailureLocation"], wait=0) is None


def test_inline_body_needs_no_right_to_read(aws: Emulated) -> None:
    runtime = endpoint(aws, "inline", "s3:PutObject")
    response = runtime.invoke_endpoint_async(EndpointName="inline", Body=b"a body")
    assert content(aws, response["OutputLocation"]) == b"a body"


def test_input_that_the_role_may_not_read_is_a_failure(aws: Emulated) -> None:
    runtime = endpoint(aws, "blind", "s3:PutObject")
    response = runtime.invoke_endpoint_async(EndpointName="blind", InputLocation=f"s3://{BUCKET}/in/1")
    text = content(aws, response["FailureLocation"])
    assert text is not None
    assert b"may not s3:GetObject" in text


def test_role_that_may_not_write_leaves_nothing(aws: Emulated) -> None:
    runtime = endpoint(aws, "mute", "s3:GetObject")
    response = runtime.invoke_endpoint_async(EndpointName="mute", InputLocation=f"s3://{BUCKET}/in/1")
    assert content(aws, response["OutputLocation"], wait=0.5) is None
    assert content(aws, response["FailureLocation"], wait=0) is None


def test_each_kind_of_endpoint_takes_its_own_requests_alone(aws: Emulated) -> None:
    runtime = endpoint(aws, "only", "s3:PutObject")
    with pytest.raises(runtime.exceptions.ClientError, match="is an asynchronous endpoint"):
        runtime.invoke_endpoint(EndpointName="only", Body=b"x")
    with pytest.raises(runtime.exceptions.ClientError, match="is an asynchronous endpoint"):
        runtime.invoke_endpoint_with_response_stream(EndpointName="only", Body=b"x")
    aws.endpoint_config("direct", "only")
    aws.endpoint("direct")
    aws.settled("direct")
    with pytest.raises(runtime.exceptions.ClientError, match="not an asynchronous"):
        runtime.invoke_endpoint_async(EndpointName="direct", InputLocation=f"s3://{BUCKET}/in/1")
    with pytest.raises(runtime.exceptions.ClientError, match="Exactly one"):
        runtime.invoke_endpoint_async(EndpointName="only", InputLocation=f"s3://{BUCKET}/in/1", Body=b"x")
