"""Where AWS's own chain finds the credentials, and when they end. No secret, and no part of one, is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from lmi_deploy.aws.credentials import ABSENT
from lmi_deploy.aws.session import credentials_explained
from lmi_deploy.errors import NoCredentials

_SENDS_REQUESTS: Final = ("container-role", "iam-role", "custom-process")
"""Providers of botocore that call a service, or a program of the user, as soon as they are looked up."""
_NAMES: Final = {
    "env": "the environment",
    "shared-credentials-file": "~/.aws/credentials",
    "config-file": "~/.aws/config",
    "custom-process": "credential_process",
    "sso": "SSO",
    "assume-role": "an assumed role",
    "assume-role-with-web-identity": "a web identity",
    "iam-role": "the role of this instance",
    "container-role": "the role of this container",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSource:
    """`origin` in words; `renewed`: botocore gets new ones by itself. `expires` is None if they do not, or if that is
    unknown without a request. `endpoint_url` is that of the profile; empty if it has none.
    """

    origin: str
    profile: str
    renewed: bool
    expires: datetime | None
    endpoint_url: str


def credential_source(*, offline: bool) -> CredentialSource:
    """NoCredentials if there are none. `offline`: no request is sent and no program started for it."""
    import botocore.session
    from botocore.config import Config

    session = botocore.session.Session()
    session.set_default_client_config(
        Config(connect_timeout=5, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
    )
    with credentials_explained():
        scoped = session.get_scoped_config()
        if offline:
            resolver = session.get_component("credential_provider")
            for name in _SENDS_REQUESTS:
                resolver.remove(name)
        found = session.get_credentials()
        if found is None:
            skipped = "; the roles of instances and containers were not looked up" if offline else ""
            raise NoCredentials(f"none found{skipped}", hint=ABSENT)
        if not offline:
            found.get_frozen_credentials()
    method = str(found.method)
    return CredentialSource(
        origin=_NAMES.get(method, method),
        profile=str(session.profile or ""),
        renewed=method != "env",
        expires=_expiry(found),
        endpoint_url=str(scoped.get("endpoint_url", "")),
    )


def _expiry(credentials: Any) -> datetime | None:
    """The field that `aws configure export-credentials` reads, too: botocore has no public one."""
    found = getattr(credentials, "_expiry_time", None)
    return found if isinstance(found, datetime) else None
