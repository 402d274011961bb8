"""The address at which a container gets the keys of its role, as the SDKs request them; no variable holds a key."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from aiohttp import web

from lmi_deploy.emulator.context import Credentials

PATH: Final = "/_credentials/{held}"
_LASTING: Final = timedelta(hours=6)


@dataclass(slots=True)
class ContainerKeys:
    """A client that knows the address has the keys; it is as hard to guess as a key."""

    _credentials: dict[str, Credentials] = field(default_factory=dict, repr=False)

    def add(self, credentials: Credentials) -> str:
        """The path to them."""
        name = secrets.token_hex(16)
        self._credentials[name] = credentials
        return PATH.format(held=name)

    async def serve(self, request: web.Request) -> web.Response:
        found = self._credentials.get(request.match_info["held"])
        if found is None:
            return web.json_response({"code": "NotFound", "message": "no such credentials"}, status=404)
        description = {
            "AccessKeyId": found.key,
            "SecretAccessKey": found.secret,
            "Token": found.token,
            "Expiration": (datetime.now(UTC) + _LASTING).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return web.json_response(description)
