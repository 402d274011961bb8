"""Deleted deployments leave no memory in the emulator."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.emulator.conftest import FULL_SPEED
from tests.support.emulator_process import BUCKET, Emulated, emulator

pytestmark = pytest.mark.landing

WARM, LIVES = 15, 35
OBJECTS = 12
GROWTH = 3 << 19
"""Bytes; these lifecycles take 0.5 MB, and 3 MB where moto keeps every instance of its models."""


def test_deleted_deployments_free_their_memory(tmp_path: Path) -> None:
    # A forked one fills memory that the process before it has freed.
    with emulator(tmp_path, *FULL_SPEED, forked=False) as aws:
        process = psutil.Process(aws.process.pid)
        for number in range(WARM):
            lifecycle(aws, f"warm-{number}")
        before = process.memory_info().rss
        for number in range(LIVES):
            lifecycle(aws, f"life-{number}")
        grown = process.memory_info().rss - before
        assert grown < GROWTH, f"{grown / 1e6:.1f} MB in {LIVES} lives"


def lifecycle(aws: Emulated, name: str) -> None:
    """As `lmi up` and `lmi down --purge --logs`: the objects of a deployment, an endpoint, a log group."""
    s3, api, logs = aws.client("s3"), aws.client("sagemaker"), aws.client("logs")
    files = {f"{number}.json": bytes(40_000) for number in range(OBJECTS)}
    uri = aws.upload(f"deployments/{name}", files)
    for _ in range(OBJECTS):
        s3.put_object(Bucket=BUCKET, Key=f"deployments/{name}/lock.json", Body=bytes(400))
    role = aws.role()
    aws.model(name, uri, role=role, Environment={"A": "x" * 1000})
    aws.endpoint_config(name, name)
    aws.endpoint(name)
    aws.settled(name)
    aws.client("sts").assume_role(RoleArn=role, RoleSessionName=name)
    aws.client("sagemaker-runtime").invoke_endpoint(EndpointName=name, Body=bytes(1000))["Body"].read()
    logs.create_log_group(logGroupName=f"/aws/sagemaker/Endpoints/{name}")
    logs.delete_log_group(logGroupName=f"/aws/sagemaker/Endpoints/{name}")
    api.delete_endpoint(EndpointName=name)
    aws.wait_until_deleted(name)
    api.delete_endpoint_config(EndpointConfigName=name)
    api.delete_model(ModelName=name)
    for key in (*files, "lock.json"):
        s3.delete_object(Bucket=BUCKET, Key=f"deployments/{name}/{key}")
