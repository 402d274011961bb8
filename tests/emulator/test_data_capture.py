"""Data Capture through boto3: which requests are written, where, in which form, and with whose right."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from lmi_deploy.bench.prompt_files import read_requests
from tests.support.emulator_process import BUCKET, Emulated

BODY = json.dumps({"inputs": "häuser"})


def endpoint(aws: Emulated, name: str, *, allowed: bool = True, **more: Any) -> None:
    """In service; it answers with the request itself."""
    aws.model(name, aws.upload(f"artifacts/{name}", {"model.py": ""}), role=role(aws, name, allowed=allowed))
    capture = {
        "InitialSamplingPercentage": 100,
        "DestinationS3Uri": f"s3://{BUCKET}/captured/",
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
        **more,
    }
    variant = {
        "VariantName": "main",
        "ModelName": name,
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": 1,
    }
    aws.client("sagemaker").create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[variant], DataCaptureConfig=capture
    )
    aws.endpoint(name)
    assert aws.settled(name)["EndpointStatus"] == "InService"


def role(aws: Emulated, name: str, *, allowed: bool) -> str:
    arn = aws.role(f"role-{name}")
    if allowed:
        statement = {
            "Effect": "Allow",
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{BUCKET}/captured/*",
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        aws.client("iam").put_role_policy(RoleName=f"role-{name}", PolicyName="write", PolicyDocument=policy)
    return arn


def invoke(aws: Emulated, name: str, content_type: str = "application/json") -> None:
    aws.client("sagemaker-runtime").invoke_endpoint(EndpointName=name, ContentType=content_type, Body=BODY)


def files(aws: Emulated, name: str, *, wait: float = 5.0) -> list[str]:
    end = time.monotonic() + wait
    while True:
        listed = (
            aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"captured/{name}/").get("Contents", [])
        )
        if listed or time.monotonic() > end:
            return [item["Key"] for item in listed]
        time.sleep(0.05)


def content(aws: Emulated, key: str) -> str:
    return str(aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read().decode())


def test_requests_and_responses_are_written_and_can_be_measured_with(aws: Emulated) -> None:
    endpoint(aws, "both", CaptureContentTypeHeader={"JsonContentTypes": ["application/json"]})
    invoke(aws, "both")
    (key,) = files(aws, "both")
    assert key.startswith("captured/both/main/20")
    assert key.count("/") == 7
    text = content(aws, key)
    (line,) = (json.loads(line) for line in text.splitlines())
    assert line["captureData"]["endpointInput"] == {
        "observedContentType": "application/json",
        "mode": "INPUT",
        "data": BODY,
        "encoding": "JSON",
    }
    assert line["captureData"]["endpointOutput"]["data"] == BODY
    assert line["eventVersion"] == "0"
    assert [request.body for request in read_requests(text, "captured.jsonl")] == [BODY.encode()]


def test_unlisted_content_types_are_in_base64_and_modes_are_kept(aws: Emulated) -> None:
    endpoint(aws, "inputs", CaptureOptions=[{"CaptureMode": "Input"}])
    invoke(aws, "inputs")
    (key,) = files(aws, "inputs")
    captured = json.loads(content(aws, key))["captureData"]
    assert set(captured) == {"endpointInput"}
    assert captured["endpointInput"]["encoding"] == "BASE64"


@pytest.mark.parametrize(
    "more", [{"InitialSamplingPercentage": 0}, {"EnableCapture": False}, {"allowed": False}]
)
def test_nothing_is_written_and_no_caller_sees_an_error(aws: Emulated, more: Any) -> None:
    name = f"no-{next(iter(more)).lower()}"
    endpoint(aws, name, **more)
    invoke(aws, name)
    assert files(aws, name, wait=0.5) == []


def test_description_says_what_is_captured(aws: Emulated) -> None:
    endpoint(aws, "described", InitialSamplingPercentage=5)
    assert aws.described("described")["DataCaptureConfig"] == {
        "EnableCapture": True,
        "CaptureStatus": "Started",
        "CurrentSamplingPercentage": 5,
        "DestinationS3Uri": f"s3://{BUCKET}/captured/",
        "KmsKeyId": "",
    }
