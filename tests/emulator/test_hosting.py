"""The hosting service with real model servers: download, unpack, start, ping, replace, stop."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from typing import Any

import pytest

from tests.server.handlers import MANY_WAYS
from tests.support.emulator_process import BUCKET, IMAGE, Emulated

PROPERTIES = "engine=Python\nminWorkers=1\nmaxWorkers=1\n"
BROKEN = "raise RuntimeError('this handler cannot be imported')\n"
FINDS = """
import os
from djl_python import Output

properties = {}

def handle(inputs):
    if inputs.is_empty():
        properties.update(inputs.get_properties())
        return None
    return Output().add_as_json({
        "weights": sorted(os.listdir(properties["model_id"])),
        "model": sorted(os.listdir(properties["model_dir"])),
        "KEY": os.environ.get("KEY"),
        "more": properties.get("more"),
    })
"""


@pytest.fixture(autouse=True)
def _no_faults(hosting: Emulated) -> Any:
    yield
    hosting.no_faults()


def deploy(aws: Emulated, name: str, files: dict[str, str], **container: Any) -> dict[str, Any]:
    uri = aws.upload(f"artifacts/{name}", {"serving.properties": PROPERTIES, **files})
    aws.model(name, uri, **container)
    aws.endpoint_config(name, name, ContainerStartupHealthCheckTimeoutInSeconds=60)
    aws.endpoint(name)
    return aws.settled(name)


def invoke(aws: Emulated, endpoint: str, body: Any) -> bytes:
    response = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType="application/json", Body=json.dumps(body)
    )
    content: bytes = response["Body"].read()
    return content


def logged(aws: Emulated, endpoint: str) -> list[str]:
    logs, group = aws.client("logs"), f"/aws/sagemaker/Endpoints/{endpoint}"
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
    return [event["message"] for page in pages for event in page["events"]]


def test_container_gets_artifact_weights_and_environment(hosting: Emulated) -> None:
    hosting.upload("weights/tiny", {"config.json": "{}", "deep/model.safetensors": "xx"})
    where = f"option.model_id=s3://{BUCKET}/weights/tiny/\noption.more=/opt/ml/model/model.py\n"
    files = {"model.py": FINDS, "serving.properties": PROPERTIES + where}
    found = deploy(hosting, "finds", files, Environment={"KEY": "value"})
    assert found["EndpointStatus"] == "InService"
    description = json.loads(invoke(hosting, "finds", {}))
    assert description["weights"] == ["config.json", "deep"]
    assert {"model.py", "serving.properties"} <= set(description["model"])
    assert description["KEY"] == "value"
    assert description["more"].endswith("/opt/ml/model/model.py")


def test_container_gets_a_packed_artifact_and_additional_sources(hosting: Emulated) -> None:
    packed = io.BytesIO()
    where = "option.model_id=/opt/ml/additional-model-data-sources/weights\n"
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in (("model.py", FINDS), ("serving.properties", PROPERTIES + where)):
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    hosting.upload("archives", {"model.tar.gz": packed.getvalue()})
    weights = hosting.upload("more", {"a.safetensors": "x"})
    source = {"S3Uri": weights, "S3DataType": "S3Prefix", "CompressionType": "None"}
    container = {
        "Image": IMAGE,
        "ModelDataUrl": f"s3://{BUCKET}/archives/model.tar.gz",
        "AdditionalModelDataSources": [{"ChannelName": "weights", "S3DataSource": source}],
    }
    hosting.client("sagemaker").create_model(
        ModelName="archive", ExecutionRoleArn=hosting.role(), PrimaryContainer=container
    )
    hosting.endpoint_config("archive", "archive")
    hosting.endpoint("archive")
    assert hosting.settled("archive")["EndpointStatus"] == "InService"
    description = json.loads(invoke(hosting, "archive", {}))
    assert description["weights"] == ["a.safetensors"]
    assert set(description["model"]) >= {"model.py", "serving.properties"}


READING_HANDLER = """
import os
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        return None
    if os.environ["AWS_ENDPOINT_URL"].endswith(":9"):
        keys = sorted(key for key in os.environ if "CREDENTIALS" in key or "ACCESS_KEY" in key)
        return Output().add_as_json({"keys": keys, "hub": os.environ["HF_ENDPOINT"]})
    import boto3
    return Output().add_as_json({"caller": boto3.client("sts").get_caller_identity()["Arn"]})
"""


def isolated(aws: Emulated, name: str, files: dict[str, str], **container: Any) -> dict[str, Any]:
    uri = aws.upload(f"artifacts/{name}", {"serving.properties": PROPERTIES, **files})
    source = {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}
    existing = {"Image": IMAGE, "ModelDataSource": {"S3DataSource": source}, **container}
    aws.client("sagemaker").create_model(
        ModelName=name, ExecutionRoleArn=aws.role(), PrimaryContainer=existing, EnableNetworkIsolation=True
    )
    aws.endpoint_config(name, name, ContainerStartupHealthCheckTimeoutInSeconds=60)
    aws.endpoint(name)
    return aws.settled(name)


def test_container_has_the_credentials_of_its_role(hosting: Emulated) -> None:
    assert deploy(hosting, "acts", {"model.py": READING_HANDLER})["EndpointStatus"] == "InService"
    description = json.loads(invoke(hosting, "acts", {}))
    assert description == {"caller": "arn:aws:sts::123456789012:assumed-role/execution/SageMaker"}


def test_isolated_container_has_no_credentials_and_no_network(hosting: Emulated) -> None:
    assert isolated(hosting, "alone", {"model.py": READING_HANDLER})["EndpointStatus"] == "InService"
    assert json.loads(invoke(hosting, "alone", {})) == {"keys": [], "hub": "http://127.0.0.1:9"}


def test_isolated_container_gets_weights_only_as_a_model_data_source(hosting: Emulated) -> None:
    weights = hosting.upload("weights/alone", {"config.json": "{}"})
    files = {"model.py": FINDS, "serving.properties": f"{PROPERTIES}option.model_id={weights}\n"}
    assert "did not pass the ping health check" in isolated(hosting, "cut-off", files)["FailureReason"]
    assert any("network is unreachable" in line for line in logged(hosting, "cut-off"))
    where = "option.model_id=/opt/ml/additional-model-data-sources/weights\n"
    source = {"S3Uri": weights, "S3DataType": "S3Prefix", "CompressionType": "None"}
    more = [{"ChannelName": "weights", "S3DataSource": source}]
    files = {"model.py": FINDS, "serving.properties": PROPERTIES + where}
    found = isolated(hosting, "supplied", files, AdditionalModelDataSources=more)
    assert found["EndpointStatus"] == "InService"
    assert json.loads(invoke(hosting, "supplied", {}))["weights"] == ["config.json"]


def test_container_that_fails_to_start_fails_the_endpoint(hosting: Emulated) -> None:
    found = deploy(hosting, "broken", {"model.py": BROKEN})
    assert found["EndpointStatus"] == "Failed"
    assert found["FailureReason"] == (
        "The primary container for production variant AllTraffic did not pass the ping health check. "
        "Please check CloudWatch logs for this endpoint."
    )
    assert any("this handler cannot be imported" in line for line in logged(hosting, "broken"))


def test_weights_the_role_cannot_read_fail_the_endpoint(hosting: Emulated) -> None:
    role = hosting.role("narrow", resources=[f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/artifacts/*"])
    hosting.upload("secret", {"config.json": "{}"})
    uri = hosting.upload(
        "artifacts/denied",
        {"model.py": FINDS, "serving.properties": f"{PROPERTIES}option.model_id=s3://{BUCKET}/secret/\n"},
    )
    hosting.model("denied", uri, role=role)
    hosting.endpoint_config("denied", "denied")
    hosting.endpoint("denied")
    assert "did not pass the ping health check" in hosting.settled("denied")["FailureReason"]
    assert any("AccessDenied" in line for line in logged(hosting, "denied"))


def test_role_that_lost_its_permissions_fails_the_endpoint(hosting: Emulated) -> None:
    role = hosting.role("fading")
    uri = hosting.upload("artifacts/fading", {"model.py": MANY_WAYS, "serving.properties": PROPERTIES})
    hosting.model("fading", uri, role=role)
    hosting.client("iam").delete_role_policy(RoleName="fading", PolicyName="read")
    hosting.endpoint_config("fading", "fading")
    hosting.endpoint("fading")
    found = hosting.settled("fading")
    assert found["EndpointStatus"] == "Failed"
    assert found["FailureReason"].startswith(
        f'Failed to download model data for container "container_1" from URL: "{uri}".'
    )


def test_update_under_load_loses_no_request(hosting: Emulated) -> None:
    """Old and new run side by side; the old one completes its requests. Some request is always in flight."""
    assert deploy(hosting, "replaced", {"model.py": MANY_WAYS})["EndpointStatus"] == "InService"
    hosting.endpoint_config("replaced-2", "replaced")
    lost: list[str] = []
    done = threading.Event()

    def load() -> None:
        runtime = hosting.client("sagemaker-runtime", fresh=True)
        while not done.is_set():
            try:
                runtime.invoke_endpoint(
                    EndpointName="replaced",
                    ContentType="application/json",
                    Body=json.dumps({"do": "sleep", "seconds": 0.2}),
                )["Body"].read()
            except runtime.exceptions.ClientError as exc:
                lost.append(str(exc))

    callers = [threading.Thread(target=load) for _ in range(4)]
    for caller in callers:
        caller.start()
    before = streams(hosting, "replaced")
    hosting.client("sagemaker").update_endpoint(EndpointName="replaced", EndpointConfigName="replaced-2")
    found = hosting.settled("replaced")
    done.set()
    for caller in callers:
        caller.join()
    assert found["EndpointConfigName"] == "replaced-2"
    assert lost == []
    assert len(streams(hosting, "replaced")) == len(before) + 1


def streams(aws: Emulated, endpoint: str) -> list[str]:
    response = aws.client("logs").describe_log_streams(logGroupName=f"/aws/sagemaker/Endpoints/{endpoint}")
    return [item["logStreamName"] for item in response["logStreams"]]


def test_failed_update_rolls_back_and_the_old_container_answers(hosting: Emulated) -> None:
    deploy(hosting, "stays", {"model.py": MANY_WAYS})
    uri = hosting.upload("artifacts/stays-2", {"serving.properties": PROPERTIES, "model.py": BROKEN})
    hosting.model("stays-2", uri)
    hosting.endpoint_config("stays-2", "stays-2", ContainerStartupHealthCheckTimeoutInSeconds=60)
    hosting.client("sagemaker").update_endpoint(EndpointName="stays", EndpointConfigName="stays-2")
    found = hosting.settled("stays")
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", "stays")
    assert "ping health check" in found["FailureReason"]
    assert invoke(hosting, "stays", {"do": "echo", "text": "still here"}) == b"still here"


def test_log_group_can_be_missing_by_a_fault_rule(hosting: Emulated) -> None:
    hosting.fault({"method": "HOSTING", "path": "^/logs/mute/", "do": "lose"})
    deploy(hosting, "mute", {"model.py": MANY_WAYS})
    logs = hosting.client("logs")
    with pytest.raises(logs.exceptions.ResourceNotFoundException):
        logs.describe_log_streams(logGroupName="/aws/sagemaker/Endpoints/mute")
