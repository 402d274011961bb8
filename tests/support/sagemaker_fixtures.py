"""One emulator per file, and our adapters with it: composed as in the command, or with fewer retries."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest

from lmi_deploy.aws.client import AwsConnection
from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting
from lmi_deploy.composition.aws import open_cloud
from lmi_deploy.domain.sagemaker.resource_settings import TAG, EndpointConfigSettings, ModelSettings
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import ACCOUNT, IMAGE, REGION, Emulated, emulator
from tests.support.frozen_clock import FrozenClock

__all__ = ["aws", "chain", "cloud", "enforcing", "hosting", "recorder", "serving"]
"""The fixtures: the conftest.py of a folder imports them all."""

SECRET = "canary-7d1f-secret-key"
KEY = {"AccessKeyId": "any", "SecretAccessKey": SECRET}
FULL_SPEED = ("--speed", "1000000", "--key", f"any:{SECRET}")
TAGS = ((TAG, "chat"), ("team", "blue"))


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """No containers; waiting takes no time."""
    with emulator(tmp_path_factory.mktemp("aws"), *FULL_SPEED) as running:
        yield running


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """An emulator that checks the permission of each request."""
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000", "--enforce-iam") as aws:
        yield aws


@pytest.fixture
def chain(aws: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a user of the emulator."""
    environment = {
        "AWS_ENDPOINT_URL": aws.url,
        **aws.keys,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    }
    for key, value in environment.items():
        monkeypatch.setenv(key, value)


@pytest.fixture
def cloud(chain: None) -> Cloud:
    return open_cloud("", FrozenClock(), os.environ)


@dataclass
class Recorder:
    """The context of an adapter: its notices, how long it waited, and its requests."""

    url: str
    clock: Any = field(default_factory=FrozenClock)
    notes: list[str] = field(default_factory=list)
    key: Mapping[str, str] = field(default_factory=lambda: KEY, repr=False)
    sessions: int = 0

    def session(self) -> Any:
        self.sessions += 1
        return boto3.Session(
            aws_access_key_id=self.key["AccessKeyId"],
            aws_secret_access_key=self.key["SecretAccessKey"],
            region_name=REGION,
        )

    def access(self, **more: Any) -> AwsConnection:
        return AwsConnection(
            session=self.session,
            clock=self.clock,
            notify=self.notes.append,
            **{"attempts": 1, "manner": "standard", **more},
        )


@pytest.fixture
def recorder(aws: Emulated, chain: None) -> Iterator[Recorder]:
    yield Recorder(aws.url)
    aws.no_faults()


@pytest.fixture
def hosting(recorder: Recorder) -> SageMakerHosting:
    return SageMakerHosting(recorder.access(), account=ACCOUNT)


def model_settings(aws: Emulated, **more: Any) -> ModelSettings:
    """Of a model that the emulator accepts."""
    requests = {
        "role": aws.role(),
        "image": IMAGE,
        "environment": (("A", "1"), ("SERVING_FAIL_FAST", "true")),
        "artifact": aws.upload("artifacts/chat/one", {"serving.properties": "engine=Python\n"}),
        **more,
    }
    return ModelSettings(**requests)


def config_settings(model: str, **more: Any) -> EndpointConfigSettings:
    requests = {"instance": "ml.g5.xlarge", "count": 1, "model_download": 600, "startup": 300, **more}
    return EndpointConfigSettings(model=model, **requests)


@pytest.fixture
def serving(aws: Emulated, cloud: Cloud) -> str:
    """Our endpoint, in service."""
    name = "chat"
    hosting = cloud.hosting
    if hosting.model(name) is None:
        hosting.create_model(name, model_settings(aws), TAGS)
    if hosting.endpoint_config(name) is None:
        hosting.create_endpoint_config(name, config_settings(name), TAGS)
    if hosting.endpoint(name) is None:
        hosting.create_endpoint(name, name, TAGS)
    assert aws.settled(name)["EndpointStatus"] == "InService"
    return name
