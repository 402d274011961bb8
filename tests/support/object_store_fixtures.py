"""The same tests on the fake, on moto and on versitygw; a bucket of its own for each test."""

import pytest

from lmi_deploy.ports.object_store import ObjectStore
from tests.support.fake_store import FakeStore
from tests.support.s3_servers import S3Server

__all__ = ["_quiet", "overwriting", "strict"]
"""The fixtures: the conftest.py of a folder imports them all."""


@pytest.fixture(params=["fake", "versity"])
def strict(request: pytest.FixtureRequest, bucket: str) -> ObjectStore:
    """The port where checksums are verified and conditions apply to copies too: moto checks few of them."""
    if request.param == "fake":
        return FakeStore(bucket=bucket)
    server: S3Server = request.getfixturevalue(request.param)
    server.make_bucket(bucket)
    return server.store(bucket)


@pytest.fixture(params=["fake", "moto"])
def overwriting(request: pytest.FixtureRequest, bucket: str) -> ObjectStore:
    """The port where overwriting replaces the metadata: versitygw keeps the old object's metadata."""
    if request.param == "fake":
        return FakeStore(bucket=bucket)
    server: S3Server = request.getfixturevalue(request.param)
    server.make_bucket(bucket)
    return server.store(bucket)


@pytest.fixture(autouse=True)
def _quiet(quiet_environment: None) -> None:
    pass
