"""The S3 requests of `lmi weights push`: few when everything is uploaded, and the bucket's rules only after
an upload."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lmi_deploy.composition.weights import open_weights
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.errors import UsageRefused
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.weights import WeightsStore
from tests.integration.weights.conftest import FILES
from tests.support.fake_source import GeneratedSource
from tests.support.proxy import Proxy, proxied
from tests.support.s3_servers import S3Server

RULE = {
    "ID": "theirs",
    "Status": "Enabled",
    "Filter": {"Prefix": "weights/"},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3},
}


@pytest.fixture
def environ(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    found = {
        "AWS_ACCESS_KEY_ID": moto.access,
        "AWS_SECRET_ACCESS_KEY": moto.secret,
        "AWS_REGION": moto.region,
        "AWS_ENDPOINT_URL_STS": moto.url,
    }
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def pushed(weights: WeightsStore) -> None:
    source = GeneratedSource(FILES)
    listing = source.listing()
    for _ in weights.push(listing, listing.files, source, key="push"):
        pass


def advice(environ: Mapping[str, str], bucket: str, monkeypatch: pytest.MonkeyPatch, url: str) -> str:
    """Runs the S3 part of the command once; returns the advice."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    weights = open_weights(
        BucketRequest(bucket=bucket), None, SystemClock(), {**environ, "AWS_ENDPOINT_URL_S3": url}
    )
    pushed(weights)
    return weights.advice()


def test_second_push_makes_three_s3_requests_and_reads_no_rules(
    moto: S3Server, bucket: str, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moto.make_bucket(bucket)
    with proxied(moto.url) as proxy:
        assert "lmi-incomplete-uploads" in advice(environ, bucket, monkeypatch, proxy.url)
        assert rule_requests(proxy) == 1
        proxy.clear()
        assert advice(environ, bucket, monkeypatch, proxy.url) == ""
        assert rule_requests(proxy) == 0
        assert len(proxy.log) <= 3, [f"{passed.method} {passed.path}" for passed in proxy.log]


def test_no_upload_rule_advice_where_a_rule_exists(
    moto: S3Server, bucket: str, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moto.make_bucket(bucket)
    moto.api().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [RULE]})
    assert advice(environ, bucket, monkeypatch, moto.url) == ""


@pytest.mark.parametrize("name", ["My_Models", "s3://models", "models/weights", "a..b", "m"])
def test_invalid_bucket_name_is_refused_before_any_request(name: str, environ: Mapping[str, str]) -> None:
    with pytest.raises(UsageRefused, match=r"is an address|is not a bucket name") as caught:
        open_weights(BucketRequest(bucket=name), None, SystemClock(), environ)
    assert caught.value.message.startswith(f"{name}: ")


def rule_requests(proxy: Proxy) -> int:
    return sum("lifecycle" in passed.path for passed in proxy.log)
