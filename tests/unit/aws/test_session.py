"""An invalid setting that boto3 refuses is reported with the name of the setting; sessions of one process share no
setting.
"""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from lmi_deploy.aws.session import credentials_explained
from lmi_deploy.errors import UsageRefused


def test_malformed_endpoint_url_is_reported_as_a_setting_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with (
        pytest.raises(UsageRefused, match="AWS_ENDPOINT_URL: not an address"),
        credentials_explained(),
    ):
        boto3.Session(region_name="us-east-1").client("sts")


def sent(key: str, region: str, service: str, call: str, **more: Any) -> str:
    """Where a client of a new session sends a request, and how it signs it."""
    client = boto3.Session(key, "secret", region_name=region).client(service, **more)
    requests: list[Any] = []

    class Stopped(Exception):
        pass

    def stop(request: Any, **_: Any) -> None:
        requests.append(request)
        raise Stopped

    client.meta.events.register("before-send", stop)
    with pytest.raises(Stopped):
        getattr(client, call)()
    return f"{requests[0].url} {requests[0].headers['Authorization'].decode()}"


@pytest.mark.parametrize(
    ("service", "call", "host"),
    [
        ("s3", "list_buckets", "s3.{}amazonaws.com"),
        ("sagemaker", "list_models", "api.sagemaker.{}amazonaws.com"),
        ("sts", "get_caller_identity", "sts.{}amazonaws.com"),
    ],
)
def test_sessions_of_one_process_share_no_setting(service: str, call: str, host: str) -> None:
    """The models that they share hold none."""
    for _ in range(2):
        for key, region in (("one", "eu-west-1"), ("two", "us-west-2"), ("one", "us-west-2")):
            request = sent(key, region, service, call)
            assert request.startswith(f"https://{host.format(region + '.')}/"), request
            assert f"Credential={key}/" in request
            assert f"/{region}/" in request
        own = sent("three", "us-west-2", service, call, endpoint_url="http://127.0.0.1:9")
        assert own.startswith("http://127.0.0.1:9/"), own
        assert "Credential=three/" in own
