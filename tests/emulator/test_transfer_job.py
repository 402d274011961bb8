"""Our own transfer job in the emulator: with its wheels and its role, without the caller's packages or
credentials."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.composition.transfer_job import job_files
from lmi_deploy.domain.sagemaker.transfer_job import INPUT, JobRequest, order_text
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.sources.hub import HubSettings, HuggingFaceHub
from tests.emulator.conftest import FULL_SPEED
from tests.support.emulator_process import ACCOUNT, IMAGE, Emulated, emulator
from tests.support.hub import HubModels, HubState, LocalHub, serve_hub

pytestmark = pytest.mark.landing

BUCKET = "transfers"
TIMEOUT = 90.0
TOKEN = "hub-token-of-the-test"
MODELS = {
    "org/tiny": {"model-1.safetensors": 900_000, "model-2.safetensors": 700_000, "config.json": 20},
    "org/adapter": {"adapter_model.safetensors": 50_000},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    root = tmp_path_factory.mktemp("hub")
    for model, sizes in MODELS.items():
        (root / model).mkdir(parents=True)
        for name, size in sizes.items():
            (root / model / name).write_bytes(os.urandom(size))
    state = HubState(HubModels(root), tokens=frozenset({TOKEN}))
    state.models.scan()
    with serve_hub(state=state) as running:
        yield running


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory, hub: LocalHub) -> Iterator[Emulated]:
    """Without `--python`: the job's interpreter has the standard library only."""
    folder = tmp_path_factory.mktemp("aws")
    with emulator(folder, *FULL_SPEED, "--enforce-iam", variables={"HF_ENDPOINT": hub.url}) as running:
        yield running


def role(aws: Emulated, secret: str) -> str:
    arn, everything = aws.role("transfer"), [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]
    rights = [
        {"Effect": "Allow", "Action": "s3:*", "Resource": everything},
        {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": secret},
    ]
    policy = {"Version": "2012-10-17", "Statement": rights}
    aws.client("iam").put_role_policy(
        RoleName="transfer", PolicyName="work", PolicyDocument=json.dumps(policy)
    )
    return arn


def put_job_files(aws: Emulated, hub: LocalHub, folder: Path, secret: str) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    settings = HubSettings.read({"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HOME": str(folder)}, folder)
    source = HuggingFaceHub(settings, SystemClock(), ledger=folder / "ledger")
    order = JobRequest(
        job="move",
        bucket=BUCKET,
        owner=ACCOUNT,
        kms_key="",
        listings=tuple(source.listing(model, "main") for model in MODELS),
        token_secret=secret,
        memory=500_000_000,
    )
    existing = {
        "order/order.json": order_text(order).encode(),
        **{f"lmi/{k}": v for k, v in job_files().items()},
    }
    for name, content in existing.items():
        s3.put_object(Bucket=BUCKET, Key=f"in/{name}", Body=content)


def source(name: str) -> dict[str, Any]:
    place = {"S3Uri": f"s3://{BUCKET}/in/{name}/", "LocalPath": f"{INPUT}/{name}", "S3DataType": "S3Prefix"}
    return {"InputName": name, "S3Input": {**place, "S3InputMode": "File"}}


def test_transfer_job_uploads_two_models_with_two_instances(
    aws: Emulated, hub: LocalHub, tmp_path: Path
) -> None:
    secret = aws.client("secretsmanager").create_secret(Name="hub", SecretString=TOKEN)["ARN"]
    put_job_files(aws, hub, tmp_path, secret)
    command = ["python3", f"{INPUT}/lmi/start.py", f"{INPUT}/lmi", "weights", "job"]
    command += [f"{INPUT}/order/order.json", "/opt/ml/config/resourceconfig.json"]
    api = aws.client("sagemaker")
    api.create_processing_job(
        ProcessingJobName="move",
        RoleArn=role(aws, secret),
        AppSpecification={"ImageUri": IMAGE, "ContainerEntrypoint": command},
        ProcessingResources={
            "ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 10}
        },
        ProcessingInputs=[source("lmi"), source("order")],
    )
    deadline = time.monotonic() + TIMEOUT
    while (observed := api.describe_processing_job(ProcessingJobName="move"))[
        "ProcessingJobStatus"
    ] == "InProgress":
        assert time.monotonic() < deadline, aws.log.read_text()
        time.sleep(0.1)
    events = aws.client("logs").filter_log_events(logGroupName="/aws/sagemaker/ProcessingJobs")["events"]
    output = "\n".join(event["message"] for event in events)
    assert observed["ProcessingJobStatus"] == "Completed", output
    assert TOKEN not in output
    listed = aws.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    sizes = {Path(item["Key"]).name: item["Size"] for item in listed if item["Key"].startswith("weights/")}
    assert sizes == {name: size for model in MODELS.values() for name, size in model.items()}
    manifests = [item["Key"] for item in listed if item["Key"].startswith("manifests/")]
    assert [key.split("/")[1] for key in manifests] == ["org--adapter", "org--tiny"]
