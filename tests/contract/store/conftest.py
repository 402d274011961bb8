"""The same tests on the fake, on moto and on versitygw; a bucket of its own for each test."""

import pytest

from lmi_deploy.ports.object_store import ObjectStore
from tests.support.fake_store import FakeStore
from tests.support.s3 import S3Server


@pytest.fixture(params=["fake", "versity"])
def strict(request: pytest.FixtureRequest, bucket: str) -> ObjectStore:
    """The port where checksums are verified and conditions hold on copies too: moto looks at few of them."""
    if request.param == "fake":
        return FakeStore(bucket=bucket)
    server: S3Server = request.getfixturevalue(request.param)
    server.make_bucket(bucket)
    return server.store(bucket)


@pytest.fixture(autouse=True)
def _quiet(quiet_environment: None) -> None:
    pass
