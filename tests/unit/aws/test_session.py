"""An invalid setting that boto3 refuses is reported with the name of the setting; sessions of one process share no
setting.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from lmi_deploy.aws.client import AwsConnection
from lmi_deploy.aws.session import aws_session, credentials_explained
from lmi_deploy.errors import UsageRefused
from lmi_deploy.host.clock import SystemClock


def test_malformed_endpoint_url_is_reported_as_a_setting_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with (
        pytest.raises(UsageRefused, match="AWS_ENDPOINT_URL: not an address"),
        credentials_explained(),
    ):
        boto3.Session(region_name="us-east-1").client("sts")


def test_adapters_of_one_connection_share_a_client_for_each_service_region_and_address() -> None:
    def session() -> Any:
        return boto3.Session("one", "secret", region_name="eu-west-1")

    access = AwsConnection(session=session, clock=SystemClock())
    own = access.clients("sts")
    assert access.clients("sts") is own
    elsewhere, local = (
        access.clients("sts", region="us-west-2"),
        access.clients("sts", url="http://127.0.0.1:9"),
    )
    for other in (access.clients("sns"), elsewhere, local, replace(access, attempts=1).clients("sts")):
        assert other is not own
        assert other.api is not own.api
    assert (own.region, elsewhere.region, local.region) == ("eu-west-1", "us-west-2", "eu-west-1")
    assert (own.endpoint, local.endpoint) == ("https://sts.eu-west-1.amazonaws.com", "http://127.0.0.1:9")


def test_profiles_and_regions_of_one_process_share_no_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[profile {0}]\naws_access_key_id = {0}\naws_secret_access_key = x\nregion = {1}\n"
    (tmp_path / "config").write_text(text.format("one", "eu-west-1") + text.format("two", "us-west-2"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in (
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    for _ in range(2):
        for profile, region in (("one", "eu-west-1"), ("two", "us-west-2")):
            session = aws_session(profile=profile)()
            assert session.get_credentials().access_key == profile
            assert session.client("sns").meta.endpoint_url == f"https://sns.{region}.amazonaws.com"
            elsewhere = aws_session(profile=profile, region="ap-south-1")()
            assert elsewhere.get_credentials().access_key == profile
            assert elsewhere.client("sns").meta.region_name == "ap-south-1"


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
