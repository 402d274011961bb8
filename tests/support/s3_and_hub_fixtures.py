"""Fixtures of several folders: S3 (a fake, moto, versitygw), a network before it, a local Hub."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.ports.object_store import ObjectStore
from tests.support.fake_store import FakeStore
from tests.support.hub import LocalHub
from tests.support.hub_client import HubClient
from tests.support.proxy import Proxy, proxied
from tests.support.s3_servers import S3Server, moto_s3, versitygw_s3
from tests.support.versitygw import PROGRAM as VERSITYGW

__all__ = [
    "bucket",
    "client",
    "hub",
    "moto",
    "proxy",
    "quiet_environment",
    "running_proxy",
    "store",
    "versity",
]
"""The fixtures: the conftest.py of a folder imports them all."""

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with moto_s3() as server:
        yield server


@pytest.fixture(scope="session")
def versity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    missing = VERSITYGW.missing()
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
    """One of its own for each test."""
    return f"bucket-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture(params=["fake", "moto", "versity"])
def store(request: pytest.FixtureRequest, bucket: str) -> ObjectStore:
    """The port, on any implementation."""
    if request.param == "fake":
        return FakeStore(bucket=bucket)
    server: S3Server = request.getfixturevalue(request.param)
    server.make_bucket(bucket)
    return server.store(bucket)


@pytest.fixture
def hub(running_hub: LocalHub) -> LocalHub:
    """Clean before each test; its models are those of the folder's `running_hub`."""
    running_hub.state.faults.clear()
    running_hub.log.clear()
    return running_hub


@pytest.fixture
def client(hub: LocalHub, tmp_path: Path) -> HubClient:
    return HubClient(hub, tmp_path)


@pytest.fixture
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without profile, endpoint or proxy of the user who runs the tests."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
