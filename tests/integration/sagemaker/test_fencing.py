"""A lost lock stops all changes: no port of an account sends a modifying request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.composition.aws import open_bucket_services, open_cloud
from lmi_deploy.composition.weights import REQUESTS
from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.actions import CreateModel
from lmi_deploy.domain.sagemaker.resource_settings import ModelSettings
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings
from lmi_deploy.errors import LockLost, UsageRefused
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.object_store import MultipartUpload
from tests.integration.sagemaker.test_faults import error_for, on
from tests.support.emulator_process import REGION, Emulated
from tests.support.fake_cloud import FakeCloud
from tests.support.fakes import FakeClock
from tests.support.frozen_clock import FrozenClock
from tests.support.sagemaker_fixtures import TAGS, config_settings

BUCKET = "fenced"
REF = DeploymentRef(name="chat", target="sagemaker", region=REGION, bucket=BUCKET)
MODEL = ModelSettings(
    role="arn:aws:iam::123456789012:role/r", image="i", environment=(), artifact="s3://b/a/"
)
JOB = JobSettings(
    role="arn:aws:iam::123456789012:role/r",
    image="i",
    instance="ml.m5.large",
    count=1,
    volume_gb=1,
    command=("true",),
    environment=(),
    inputs=(),
    timeout=60,
    kms_key="",
    vpc=None,
)
ARN = f"arn:aws:sagemaker:{REGION}:123456789012:endpoint/chat"
UPLOAD = MultipartUpload(key="weights/a", upload_id="u")
Change = Callable[[Cloud, BucketServices], object]
CHANGES: dict[str, Change] = {
    "create_model": lambda cloud, _: cloud.hosting.create_model("chat", MODEL, TAGS),
    "create_endpoint_config": lambda cloud, _: cloud.hosting.create_endpoint_config(
        "chat", config_settings("chat"), TAGS
    ),
    "create_endpoint": lambda cloud, _: cloud.hosting.create_endpoint("chat", "chat", TAGS),
    "update_endpoint": lambda cloud, _: cloud.hosting.update_endpoint("chat", "chat", keep_count=False),
    "tag": lambda cloud, _: cloud.hosting.tag(ARN, TAGS),
    "untag": lambda cloud, _: cloud.hosting.untag(ARN, ("team",)),
    "delete_endpoint": lambda cloud, _: cloud.hosting.delete_endpoint("chat"),
    "delete_endpoint_config": lambda cloud, _: cloud.hosting.delete_endpoint_config("chat"),
    "delete_model": lambda cloud, _: cloud.hosting.delete_model("chat"),
    "scale": lambda cloud, _: cloud.scalers.scale("chat", Scaling(least=1, most=2, invocations=5)),
    "remove scaling": lambda cloud, _: cloud.scalers.remove("chat"),
    "start a job": lambda cloud, _: cloud.jobs.start("chat-1", JOB, TAGS),
    "stop a job": lambda cloud, _: cloud.jobs.stop("chat-1"),
    "remove logs": lambda cloud, _: cloud.logs.remove("/aws/sagemaker/Endpoints/chat"),
    "put": lambda _, bucket_services: bucket_services.store.put("artifacts/chat/a", b"a"),
    "delete": lambda _, bucket_services: bucket_services.store.delete(["kept"]),
    "copy": lambda _, bucket_services: bucket_services.store.copy("kept", "copied", size=4),
    "create_multipart": lambda _, bucket_services: bucket_services.store.create_multipart("weights/a"),
    "put_part": lambda _, bucket_services: bucket_services.store.put_part(
        UPLOAD, 1, memoryview(b"a"), crc32=crc32_of(b"a")
    ),
    "abort": lambda _, bucket_services: bucket_services.store.abort(UPLOAD),
    "the record": lambda _, bucket_services: bucket_services.records.journal(REF).begin(
        CreateModel(model="chat", settings=MODEL)
    ),
}


class Lease:
    """A lock that is lost after the given number of checks."""

    def __init__(self, left: int = 0) -> None:
        self.left = left

    def ensure(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LockLost("chat: the lock was lost", hint="look what is there")


@pytest.fixture
def requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(REQUESTS, str(tmp_path / "requests"))
    return tmp_path / "requests"


@pytest.fixture
def emulated(
    aws: Emulated, chain: None, requests: Path
) -> Iterator[tuple[Cloud, BucketServices, LeaseGuard]]:
    s3, guard = aws.client("s3"), LeaseGuard()
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="kept", Body=b"kept")
    cloud = open_cloud("", FrozenClock(), os.environ, guard=guard)
    bucket_services = open_bucket_services(cloud, BUCKET, FrozenClock(), os.environ, guard=guard)
    assert bucket_services is not None
    yield cloud, bucket_services, guard
    aws.no_faults()


def _fake() -> tuple[Cloud, BucketServices, LeaseGuard]:
    fake = FakeCloud(FakeClock())
    cloud = fake.cloud()
    cloud.account.make_bucket(BUCKET, tags={})
    bucket_services = fake.depot(cloud, BUCKET)
    assert bucket_services is not None
    bucket_services.store.put("kept", b"kept")
    return cloud, bucket_services, fake.account_state.process


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("side", ["emulator", "fake"])
def test_change_under_a_lost_lock_is_not_sent(
    side: str, change: str, requests: Path, request: pytest.FixtureRequest
) -> None:
    cloud, bucket_services, guard = request.getfixturevalue("emulated") if side == "emulator" else _fake()
    with guard.watch(Lease()):
        with pytest.raises(LockLost, match="chat: the lock was lost"):
            CHANGES[change](cloud, bucket_services)
        assert cloud.hosting.endpoint("chat") is None
        assert [stored.key for stored in bucket_services.store.list("")] == ["kept"]
    if side == "emulator":
        sent = [line.split()[1] for line in requests.read_text().splitlines()]
        assert [one for one in sent if not one.startswith(("Get", "Head", "List", "Describe"))] == []


@pytest.mark.parametrize("side", ["emulator", "fake"])
def test_changes_without_a_watched_lock_are_sent(side: str, request: pytest.FixtureRequest) -> None:
    cloud, bucket_services, guard = request.getfixturevalue("emulated") if side == "emulator" else _fake()
    with guard.watch(Lease()):
        pass
    bucket_services.store.put("kept", b"kept")
    assert cloud.hosting.endpoint("chat") is None


@pytest.mark.landing  # botocore waits in real time
def test_throttling_is_waited_out_for_minutes_while_a_lock_is_held(
    emulated: tuple[Cloud, BucketServices, LeaseGuard], aws: Emulated
) -> None:
    cloud, _, guard = emulated
    aws.fault(on("DescribeEndpoint", error_for("ThrottlingException", "Rate exceeded"), times=20))
    with guard.watch(Lease()):
        assert cloud.hosting.endpoint("chat") is None


def test_every_retry_checks_the_lock(
    emulated: tuple[Cloud, BucketServices, LeaseGuard], aws: Emulated, requests: Path
) -> None:
    cloud, _, guard = emulated
    aws.fault(on("DeleteModel", error_for("ThrottlingException", "Rate exceeded"), times=None))
    with guard.watch(Lease(left=2)), pytest.raises(LockLost):
        cloud.hosting.delete_model("chat")
    assert requests.read_text().splitlines().count("sagemaker DeleteModel") == 2


@pytest.mark.parametrize("text", ["soon", "1", "-5", "nan", "7200", "1e9"])
def test_invalid_lock_seconds_are_refused(emulated: Any, text: str) -> None:
    with pytest.raises(
        UsageRefused, match=f"LMI_LOCK_SECONDS={text}: not a number of seconds from 2 to 3600"
    ):
        open_bucket_services(emulated[0], BUCKET, FrozenClock(), {**os.environ, "LMI_LOCK_SECONDS": text})


def test_lock_seconds_set_the_duration_of_the_lock(emulated: Any) -> None:
    bucket_services = open_bucket_services(
        emulated[0], BUCKET, FrozenClock(), {**os.environ, "LMI_LOCK_SECONDS": "2"}
    )
    with bucket_services.lock.hold("chat"):
        found = bucket_services.store.get("deployments/chat/lock.json")
        assert b'"lasts": 2.0' in found[0]
