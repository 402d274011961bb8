"""The composition root of an account and a bucket: owner, region, and number of requests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmi_deploy.composition.aws import open_bucket_services, open_cloud
from lmi_deploy.composition.weights import REQUESTS, open_s3_models, open_weights
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.errors import AccessError, NotFound, UsageRefused
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import ACCOUNT, REGION, Emulated
from tests.support.frozen_clock import FrozenClock

REF = DeploymentRef(name="chat", target="sagemaker", region=REGION)


def test_caller_is_account_region_and_partition(cloud: Cloud) -> None:
    assert (cloud.caller.account, cloud.caller.region, cloud.caller.partition) == (ACCOUNT, REGION, "aws")


def test_region_option_overrides_the_environment(chain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert open_cloud("", FrozenClock(), os.environ).caller.region == REGION
    assert open_cloud("eu-west-1", FrozenClock(), os.environ).caller.region == "eu-west-1"
    monkeypatch.delenv("AWS_REGION")
    assert open_cloud("", FrozenClock(), os.environ).caller.region == "eu-central-1"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(UsageRefused, match="region: not set"):
        open_cloud("", FrozenClock(), os.environ)


def test_missing_credentials_are_reported_with_a_hint(chain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(AccessError, match="unable to locate credentials") as caught:
        open_cloud("", FrozenClock(), os.environ)
    assert "aws sso login" in caught.value.hint


def test_bucket_services_open_only_an_existing_own_bucket(aws: Emulated, cloud: Cloud) -> None:
    assert open_bucket_services(cloud, "no-such-bucket-at-all", FrozenClock(), os.environ) is None
    aws.client("s3").create_bucket(Bucket="depot")
    bucket_services = open_bucket_services(cloud, "depot", FrozenClock(), os.environ, memory_mb=100)
    assert bucket_services is not None
    assert bucket_services.records.read("chat") is None
    with bucket_services.lock.hold("chat"):
        assert bucket_services.lock.holder("chat")
    assert bucket_services.records.names() == ()
    assert bucket_services.weights.all() == ()
    assert bucket_services.store.where == aws.url


@pytest.mark.parametrize("opens", ["a cloud", "a bucket", "a model in S3"])
def test_garbled_identity_is_requested_again_and_reported(
    aws: Emulated, chain: None, opens: str, tmp_path: Path
) -> None:
    aws.client("s3").create_bucket(Bucket="garbled")
    garbled = {"answer": {"status": 200, "body": "<<garbled"}}
    aws.fault({"headers": {"Authorization": "/sts/"}, "times": 2, "do": garbled})
    lines: list[str] = []
    match opens:
        case "a cloud":
            open_cloud("", FrozenClock(), os.environ, notify=lines.append)
        case "a bucket":
            bucket_request = BucketRequest(bucket="garbled", region=REGION)
            open_weights(bucket_request, None, FrozenClock(), os.environ, notify=lines.append)
        case _:
            models = open_s3_models(tmp_path, FrozenClock(), os.environ, notify=lines.append)
            with pytest.raises(NotFound):
                models.listing("s3://garbled/m/", "main")
    why = "a response with a body that cannot be read (a web page?)"
    assert lines == [f"STS returned no identity: trying again: {why}"] * 2


def test_bucket_in_another_region_is_explained(aws: Emulated, chain: None) -> None:
    aws.client("s3").create_bucket(Bucket="elsewhere")
    remote = open_cloud("eu-west-1", FrozenClock(), os.environ)
    with pytest.raises(AccessError, match="the bucket is in us-east-1"):
        open_bucket_services(remote, "elsewhere", FrozenClock(), os.environ)


def test_every_request_is_counted(
    aws: Emulated, chain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    aws.client("s3").create_bucket(Bucket="counted")
    monkeypatch.setenv(REQUESTS, str(tmp_path / "requests"))
    cloud = open_cloud("", FrozenClock(), os.environ)
    assert cloud.hosting.endpoint("nobody") is None
    bucket_services = open_bucket_services(cloud, "counted", FrozenClock(), os.environ)
    assert bucket_services is not None
    assert bucket_services.records.read("chat") is None
    cloud.tagged.of("chat")
    assert (tmp_path / "requests").read_text().splitlines() == [
        "sts GetCallerIdentity",
        "sagemaker DescribeEndpoint",
        "s3 HeadBucket",
        "s3 GetObject",
        "resource-groups-tagging-api GetResources",
    ]
