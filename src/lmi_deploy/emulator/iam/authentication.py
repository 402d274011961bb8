"""Authentication: every request must address this machine by name and be signed with a known key.

Other users of the machine can reach the address as well as its owner can, and so can every web page that the owner
opens.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Final

from aiohttp import web

from lmi_deploy.domain.local_host_names import foreign_host
from lmi_deploy.emulator.hosting.network_access import PATH
from lmi_deploy.emulator.iam.keyring import Keyring
from lmi_deploy.emulator.runtime.invocation_request import is_invocation
from lmi_deploy.emulator.services.pricing import PUBLIC
from lmi_deploy.emulator.wire import query_protocol, signature_check
from lmi_deploy.emulator.wire.canonical_request import SignableRequest
from lmi_deploy.emulator.wire.errors import ApiError, xml_error
from lmi_deploy.emulator.wire.operation_dispatch import called, refusal
from lmi_deploy.emulator.wire.signature import Signature, read_signature

SIGNATURE: Final = "signature"
"""The key under which a request stores its verified signature."""
_CONTROLS: Final = "/_"
"""What the paths of the emulator's own controls begin with."""
_SECRET_PATHS: Final = PATH.partition("{")[0]
"""These are secrets themselves, and need no key; the price list is public."""
_LOCKED: Final = 'the emulator\'s key is missing: use curl --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"'
_LARGE: Final = 1 << 20
_QUERY: Final = {
    "UnrecognizedClientException": "InvalidClientTokenId",
    "MissingAuthenticationTokenException": "MissingAuthenticationToken",
    "IncompleteSignatureException": "IncompleteSignature",
    "ExpiredTokenException": "ExpiredToken",
}
_S3: Final = {
    "UnrecognizedClientException": "InvalidAccessKeyId",
    "MissingAuthenticationTokenException": "AccessDenied",
    "IncompleteSignatureException": "AuthorizationHeaderMalformed",
    "ExpiredTokenException": "ExpiredToken",
}
_JSON: Final = {"SignatureDoesNotMatch": "InvalidSignatureException", "AccessDenied": "AccessDeniedException"}
"""The codes of the two protocols for the same refusal."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Authentication:
    keyring: Keyring
    off: timedelta = timedelta(0)
    """By how much AWS's clock is off from this machine's: to its clients, their own clock is wrong."""

    def middleware(self) -> Any:
        """Outside of the faults: an unsigned request is never carried out, and no rule applies to it."""

        @web.middleware
        async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
            if refusal := foreign_host(request.headers.get("Host"), "127.0.0.1"):
                return web.json_response({"error": refusal}, status=403)
            if request.path.startswith((_SECRET_PATHS, PUBLIC)):
                return await handler(request)
            if request.path.startswith(_CONTROLS):
                if self._may_control(request):
                    return await handler(request)
                return web.json_response({"error": _LOCKED}, status=401)
            try:
                request[SIGNATURE] = await self._verified(request)
            except ApiError as error:
                response = await refused_request(request, error)
                response.headers["Date"] = format_datetime(self._now(), usegmt=True)
                return response
            return await handler(request)

        return authenticate

    async def require_body(self, request: web.Request) -> None:
        """ApiError unless the body is the signed one; separate from the head, because a fault may prevent its being
        read.
        """
        wire, signature = _wire(request), request[SIGNATURE]
        if not signature_check.is_declared(wire, signature):
            return
        secret = self.keyring.secret(signature, self._now())
        body = await request.read()
        if len(body) > _LARGE:
            await asyncio.to_thread(signature_check.require_body, wire, signature, secret, body)
        else:
            signature_check.require_body(wire, signature, secret, body)

    async def _verified(self, request: web.Request) -> Signature:
        signature = read_signature(request.headers, request.query)
        if signature is None:
            raise ApiError("MissingAuthenticationTokenException", "Missing Authentication Token", status=403)
        now, wire = self._now(), _wire(request)
        secret = self.keyring.secret(signature, now)
        body = None if signature_check.is_declared(wire, signature) else await request.read()
        signature_check.require_signed(wire, signature, secret, body, now)
        return signature

    def _now(self) -> datetime:
        return datetime.now(UTC) + self.off

    def _may_control(self, request: web.Request) -> bool:
        """With one of the emulator's own keys as user and password, as `curl --user` sends them."""
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        try:
            ident, _, secret = base64.b64decode(text, validate=True).decode().partition(":")
        except ValueError:
            return False
        return kind.lower() == "basic" and self.keyring.is_own(ident, secret)


def _wire(request: web.Request) -> SignableRequest:
    return SignableRequest(request.method, request.raw_path, tuple(request.headers.items()))


async def refused_request(request: web.Request, error: ApiError) -> web.Response:
    """In the format and with the message of the requested service."""
    try:
        call = await called(request)
    except ApiError:  # an unreadable signature; `error` describes it
        call = None
    if call is not None and call.protocol != "query":
        error.code = _JSON.get(error.code, error.code)
        return refusal(error, call)
    if call is not None or request.content_type == query_protocol.FORM:
        error.code = _QUERY.get(error.code, error.code)
        body = xml_error("", error.message, code=error.code)
        return web.Response(status=error.status, body=body, content_type="text/xml")
    if (request.method, request.path) == ("POST", "/") or is_invocation(request.path):
        error.code = _JSON.get(error.code, error.code)
        response = refusal(error)
        response.content_type = "application/json"
        return response
    error.code = _S3.get(error.code, error.code)
    body = xml_error("s3", error.message, code=error.code)
    return web.Response(status=error.status, body=body, content_type="application/xml")
