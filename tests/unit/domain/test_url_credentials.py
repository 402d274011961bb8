"""Passwords in URLs are never shown."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import CloudError
from lmi_deploy.errors.url_redaction import mask_urls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pw@hub.example/x: no", "https://***@hub.example/x: no"),
        ("https://token@hub.example", "https://***@hub.example"),
        ("see http://h/?a=1&token=abc, then", "see http://h/?a=1&token=*** then"),
        ("/blob?X-Amz-Signature=ff&X-Amz-Date=1", "/blob?X-Amz-Signature=***&X-Amz-Date=1"),
        ("https://h/?access_token=a#part", "https://h/?access_token=***#part"),
        ("a@b.c and https://h/p@q", "a@b.c and https://h/p@q"),
        ("--set options.dtype=fp32", "--set options.dtype=fp32"),
        ("s3://bucket/key", "s3://bucket/key"),
        ("http://me:p/w?x@host", "http://***@host"),
        (
            "http://host:8080/p@q and http://host:8080?a=b@c",
            "http://host:8080/p@q and http://host:8080?a=b@c",
        ),
        ("two: http://a:b@c http://d:e@f", "two: http://***@c http://***@f"),
    ],
)
def test_passwords_and_tokens_in_urls_are_masked(text: str, shown: str) -> None:
    assert mask_urls(text) == shown


def test_errors_never_show_a_password() -> None:
    error = CloudError("http://me:pw@s3: no", hint="look at http://me:pw@s3", details=["http://me:pw@s3"])
    error.hint += "; or http://me:pw@s3"
    assert "pw" not in f"{error.message} {error.hint} {error.details} {error}"
