"""The same tests on the fake, on moto and on versitygw; a bucket of its own for each test."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.ports.object_store import ObjectStore
from tests.support.fake_store import FakeStore
from tests.support.s3 import S3Server, moto_s3, versitygw_s3
from tests.support.versitygw import versitygw_missing

_NUMBERS = itertools.count()


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


@pytest.fixture
def bucket() -> str:
    return f"bucket-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture(params=["fake", "moto", "versity"])
def store(request: pytest.FixtureRequest, bucket: str) -> ObjectStore:
    """The port, whoever stands behind it."""
    if request.param == "fake":
        return FakeStore(bucket=bucket)
    server: S3Server = request.getfixturevalue(request.param)
    server.make_bucket(bucket)
    return server.store(bucket)


@pytest.fixture(params=["fake", "versity"])
def strict(request: pytest.FixtureRequest, bucket: str) -> ObjectStore:
    """The port where checksums are verified and conditions hold on copies too: moto looks at few of them."""
    if request.param == "fake":
        return FakeStore(bucket=bucket)
    server: S3Server = request.getfixturevalue(request.param)
    server.make_bucket(bucket)
    return server.store(bucket)


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No profile, endpoint or proxy of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
