"""An invalid setting that boto3 refuses is reported with the name of the setting."""

from __future__ import annotations

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
