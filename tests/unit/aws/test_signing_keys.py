"""Keys for a signature of our own come from boto3's session, and from a new one after they have expired."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lmi_deploy.aws.signing_keys import SessionKeys
from lmi_deploy.errors import NoCredentials


def session(credentials: Any) -> Any:
    return SimpleNamespace(get_credentials=lambda: credentials)


def credentials(secret: str, token: str | None = None) -> Any:
    frozen = SimpleNamespace(access_key="AKIA", secret_key=secret, token=token)
    return SimpleNamespace(get_frozen_credentials=lambda: frozen)


def test_keys_are_read_from_the_session_until_they_are_renewed() -> None:
    sessions = [session(credentials("one")), session(credentials("two", "t"))]
    keys = SessionKeys(lambda: sessions.pop(0))
    assert keys().secret_key.value == "one"
    assert (keys().secret_key.value, keys().token) == ("one", None)
    renewed = keys(renew=True)
    assert renewed.token is not None
    assert (renewed.secret_key.value, renewed.token.value) == ("two", "t")


def test_keys_are_not_shown() -> None:
    assert "s3cret" not in repr(SessionKeys(lambda: session(credentials("s3cret")))())


def test_session_without_credentials_is_an_error() -> None:
    with pytest.raises(NoCredentials, match="none found"):
        SessionKeys(lambda: session(None))()
