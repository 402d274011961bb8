"""Whose token it is: the Hub is asked once."""

from __future__ import annotations

import json

from lmi_deploy.errors import AccessError
from lmi_deploy.sources.download_retry import RetryableError, Unreachable
from lmi_deploy.sources.hub.api_connection import HubConnection
from lmi_deploy.sources.hub.errors import HubResource
from lmi_deploy.sources.hub.hub_settings import HubSettings

_ADDRESS = "/api/whoami-v2"
_MOST = 1 << 20


def token_owner(settings: HubSettings) -> str:
    """The account's name, and the token's role, as the Hub shows them. AccessError if the Hub refuses the token or
    does not answer.
    """
    try:
        with HubConnection(settings).get(_ADDRESS, HubResource("the token's account", ""), {}) as response:
            body = b""
            for chunk in response.chunks:
                body += chunk
                if len(body) > _MOST:
                    break
    except Unreachable as failure:
        raise AccessError(
            f"{settings.endpoint}: cannot be reached: {failure.why}", hint=failure.hint
        ) from failure
    except RetryableError as failure:
        raise AccessError(f"{settings.endpoint}: {failure.why}", hint="try again later") from failure
    return _named(settings, body)


def _named(settings: HubSettings, body: bytes) -> str:
    try:
        found = json.loads(body)
        name = str(found["name"])
    except (ValueError, KeyError, TypeError):
        raise AccessError(
            f"{settings.endpoint}{_ADDRESS}: the response is not an account",
            hint="check HF_ENDPOINT: is it a Hub?",
        ) from None
    access = found.get("auth", {}).get("accessToken", {}) if isinstance(found.get("auth"), dict) else {}
    role = access.get("role") if isinstance(access, dict) else None
    return f"{name} ({role})" if role else name
