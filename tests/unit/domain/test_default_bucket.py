"""The default bucket: the account in its name, and whether S3 reserves the name for that account."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.default_bucket import account_of, default_bucket, is_regional

ACCOUNT = "123456789012"


@pytest.mark.parametrize(
    ("region", "name", "regional"),
    [
        ("us-east-1", f"lmi-{ACCOUNT}-us-east-1-an", True),
        ("me-south-1", f"lmi-{ACCOUNT}-me-south-1", False),
        ("me-central-1", f"lmi-{ACCOUNT}-me-central-1", False),
    ],
)
def test_name_has_the_suffix_where_there_are_account_regional_names(
    region: str, name: str, regional: bool
) -> None:
    assert default_bucket(ACCOUNT, region) == name
    assert (account_of(name), is_regional(name, ACCOUNT, region)) == (ACCOUNT, regional)


def test_bucket_of_another_name_has_no_known_account() -> None:
    assert account_of(f"lmi-{ACCOUNT}-mine") == account_of("weights") == ""
