"""A local Hub on one side, S3 (a fake, moto, versitygw) on the other."""

import itertools
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.ports.object_store import ObjectStore
from tests.support.fake_store import FakeStore
from tests.support.hub import LocalHub, serve_hub
from tests.support.hub_client import HubClient
from tests.support.proxy import Proxy, proxied
from tests.support.s3 import S3Server, moto_s3, versitygw_s3
from tests.support.versitygw import versitygw_missing

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
_NUMBERS = itertools.count()
NOISE = random.Random(6).randbytes(12 << 20)
FILES = {"config.json": b'{"a": 1}' * 40, "empty": b"", "model.safetensors": NOISE, "sub/x.json": b"{}"}


@pytest.fixture(scope="module")
def running_hub() -> Iterator[LocalHub]:
    with serve_hub({"org/m": FILES}) as hub:
        yield hub


@pytest.fixture
def hub(running_hub: LocalHub) -> LocalHub:
    running_hub.state.faults.clear()
    running_hub.log.clear()
    return running_hub


@pytest.fixture
def client(hub: LocalHub, tmp_path: Path) -> HubClient:
    return HubClient(hub, tmp_path)


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with moto_s3() as server:
        yield server


@pytest.fixture(scope="session")
def versity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    missing = versitygw_missing()
    if missing and not os.environ.get("LMI_CI"):
        pytest.skip(missing)
    with versitygw_s3(tmp_path_factory.mktemp("versity")) as server:
        yield server


@pytest.fixture(scope="module")
def running_proxy(versity: S3Server) -> Iterator[Proxy]:
    with proxied(versity.url) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: Proxy) -> Proxy:
    running_proxy.clear()
    return running_proxy


@pytest.fixture
def bucket() -> str:
    return f"weights-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture(params=["fake", "moto", "versity"])
def store(request: pytest.FixtureRequest, bucket: str) -> ObjectStore:
    if request.param == "fake":
        return FakeStore(bucket=bucket)
    server: S3Server = request.getfixturevalue(request.param)
    server.make_bucket(bucket)
    return server.store(bucket)


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
