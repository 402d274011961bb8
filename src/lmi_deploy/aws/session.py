"""boto3's session: profiles, SSO, roles, the environment. Nothing of that chain is done again here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from lmi_deploy.aws.credentials import ABSENT, credential_error, expired_credentials, is_still_expired
from lmi_deploy.errors import NoCredentials, UsageRefused
from lmi_deploy.errors.url_redaction import is_http_address

SessionFactory = Callable[[], Any]
"""A new boto3 session each time: it reads the credentials again."""


Watch = Callable[[str, str], None]
"""Called before every request, including retries: with the service and the operation, as AWS names them."""


def aws_session(*, profile: str = "", region: str = "", watch: Watch | None = None) -> SessionFactory:
    """A factory of sessions; the profile is looked up when the first one is made."""

    def report(event_name: str, **_: Any) -> None:
        _before, service, operation = event_name.split(".")
        if watch is not None:
            watch(service, operation)

    def make() -> Any:
        import boto3
        import botocore.session

        with credentials_explained():
            core = botocore.session.get_session()
            if profile:
                core.set_config_variable("profile", profile)
            core.register_component("data_loader", _models(core.get_config_variable("data_path")))
            session = boto3.Session(botocore_session=core, region_name=region or None)
        if watch is not None:
            session.events.register("before-send", report)
        return session

    return make


@cache
def _models(folders: str | None) -> Any:
    """AWS's models of its services, which hold no setting: each session would read them again (`--all-regions`)."""
    from botocore.loaders import create_loader

    return create_loader(folders)


class SharedSession:
    """One session for all clients: a role is assumed, and a second factor requested, once. A SessionFactory."""

    def __init__(self, make: SessionFactory) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._session: Any = None

    def __call__(self) -> Any:
        return self.renew(None)

    def renew(self, stale: Any) -> Any:
        """A session in place of `stale`, whose credentials have expired."""
        with self._lock:
            if self._session is stale:
                self._session = self._make()
            return self._session


def fresh_session(factory: SessionFactory, stale: Any) -> Any:
    """A session with refreshed credentials, in place of `stale`."""
    return factory.renew(stale) if isinstance(factory, SharedSession) else factory()


@contextmanager
def credentials_explained() -> Iterator[None]:
    """Convert botocore's errors about configuration and credentials; others pass."""
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except BotoCoreError as exc:
        failure = credential_error(exc)
        if failure is None:
            raise
        raise failure from exc
    except RuntimeError as exc:
        if not is_still_expired(exc):
            raise
        raise expired_credentials() from exc
    except ValueError as exc:
        if not str(exc).startswith("Invalid endpoint"):  # botocore has no exception class for it
            raise
        raise _no_address("AWS_ENDPOINT_URL") from None


def require_addresses(environ: Mapping[str, str]) -> None:
    """botocore accepts any text as an endpoint, and fails during its first request."""
    for name, value in environ.items():
        if name.startswith("AWS_ENDPOINT_URL") and value and not is_http_address(value):
            raise _no_address(name)


def _no_address(name: str) -> UsageRefused:
    """The address is not shown: it may contain a password."""
    return UsageRefused(
        f"{name}: not an address: write http:// or https://, then a host",
        hint=f"set {name} (or endpoint_url of the profile) to an address such as http://127.0.0.1:4566, or unset it",
    )


def configured_region() -> str:
    """Of AWS_DEFAULT_REGION or the profile; empty if neither names one."""
    import botocore.session

    with credentials_explained():
        return str(botocore.session.Session().get_config_variable("region") or "")


def region_of(session: Any) -> str:
    """The session's region; UsageRefused if none is configured, NoCredentials if AWS is not set up at all."""
    region = session.region_name
    if not region:
        if session.get_credentials() is None:
            raise NoCredentials(
                "AWS credentials: none found, and no region is set", hint=f"{ABSENT}; also set AWS_REGION"
            )
        raise UsageRefused(
            "region: not set",
            hint="set endpoint.region in the recipe, AWS_REGION, or `region` in the profile",
        )
    return str(region)
