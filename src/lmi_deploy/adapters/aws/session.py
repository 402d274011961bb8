"""boto3's session: profiles, SSO, roles, the environment. Nothing of that chain is done again here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lmi_deploy.adapters.aws.credentials import credential_trouble
from lmi_deploy.errors import UsageRefused

SessionFactory = Callable[[], Any]
"""A fresh boto3 session each time: it reads the credentials anew."""


def aws_session(*, profile: str = "", region: str = "") -> SessionFactory:
    """A factory of sessions; the profile is looked up when the first one is made."""

    def make() -> Any:
        import boto3

        with credentials_explained():
            return boto3.Session(profile_name=profile or None, region_name=region or None)

    return make


@contextmanager
def credentials_explained() -> Iterator[None]:
    """botocore's errors about configuration and credentials in our words; others pass."""
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except BotoCoreError as exc:
        trouble = credential_trouble(exc)
        if trouble is None:
            raise
        raise trouble from exc


def region_of(session: Any) -> str:
    """The session's region; UsageRefused where nothing names one."""
    region = session.region_name
    if not region:
        raise UsageRefused(
            "region: none is set",
            hint="set endpoint.region in the recipe, AWS_REGION, or `region` in the profile",
        )
    return str(region)
