"""What a container can reach, and the address at which it gets the keys of its role."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from aiohttp import web

from lmi_deploy.emulator.context import Credentials, EmulatorContext

NOWHERE: Final = "http://127.0.0.1:9"
"""An address at which no server listens."""


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """`s3` is an S3 server that is not ours; `hub`, a Hub of the user's own."""

    s3: str = ""
    hub: str = ""

    def variables(
        self, context: EmulatorContext, role: str, region: str, *, isolated: bool
    ) -> dict[str, str]:
        local = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region, "AWS_EC2_METADATA_DISABLED": "true"}
        if isolated:
            return {**local, "AWS_ENDPOINT_URL": NOWHERE, "HF_ENDPOINT": NOWHERE}
        local["AWS_ENDPOINT_URL"] = context.address
        # An outside S3 server knows no roles: it has keys of its own.
        keys = context.s3_keys or context.roles.assume(role, "SageMaker", region)
        local["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = context.address + context.keys.add(keys)
        if self.s3:
            local["AWS_ENDPOINT_URL_S3"] = self.s3
        if self.hub:
            local |= {"HF_ENDPOINT": self.hub, "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}
        return local


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
