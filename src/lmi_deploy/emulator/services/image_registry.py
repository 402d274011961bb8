"""The registry of ECR: Docker's HTTP API (`/v2/`) in front of a registry program, with ECR's logins, permissions and
rules.

Sources: ECR's user guide ("Private registry authentication", "Pushing a Docker image", "Image tag immutability"), the
OCI distribution specification; which action each request needs: the actions of `docker push` and `docker pull` in the
service authorization reference.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.iam.authorizer import AccessDenied, Authorizer
from lmi_deploy.emulator.iam.policy_evaluation import AccessRequest

TOKEN_SECONDS: Final = 12 * 3600
_PATH: Final = re.compile(r"/v2/(?P<name>.+)/(?P<kind>blobs|manifests|tags)/(?P<rest>.+)")
_ACTIONS: Final = {
    ("HEAD", "blobs"): "BatchCheckLayerAvailability",
    ("GET", "blobs"): "GetDownloadUrlForLayer",
    ("HEAD", "manifests"): "BatchGetImage",
    ("GET", "manifests"): "BatchGetImage",
    ("PUT", "manifests"): "PutImage",
    ("GET", "tags"): "ListImages",
    ("POST", "uploads"): "InitiateLayerUpload",
    ("GET", "uploads"): "UploadLayerPart",
    ("PATCH", "uploads"): "UploadLayerPart",
    ("PUT", "uploads"): "CompleteLayerUpload",
}
_NOT_PASSED_ON: Final = frozenset(
    ("host", "authorization", "transfer-encoding", "connection", "content-length")
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class DockerRegistryApi:
    """`program` is the address of the registry program; empty: ECR has no registry behind it."""

    context: EmulatorContext
    guard: Authorizer | None
    program: str
    _tokens: dict[str, tuple[str, str, float]] = field(default_factory=dict, repr=False)
    """By password: the key that asked for it, its region, its end."""

    def authorization(self, key: str, region: str) -> dict[str, Any]:
        """The response of GetAuthorizationToken."""
        password = secrets.token_urlsafe(48)
        ends = self.context.clock.now() + TOKEN_SECONDS
        self._tokens[password] = (key, region, ends)
        data = {
            "authorizationToken": base64.b64encode(f"AWS:{password}".encode()).decode(),
            "expiresAt": ends,
            "proxyEndpoint": self.context.address,
        }
        return {"authorizationData": [data]}

    def middleware(self) -> Any:
        """Outside of the check of signatures: a container CLI sends user and password."""

        @web.middleware
        async def route(request: web.Request, handler: Handler) -> web.StreamResponse:
            is_signed = request.headers.get("Authorization", "").startswith("AWS4")
            if not self.program or is_signed or not request.path.startswith("/v2/"):
                return await handler(request)
            try:
                return await self._serve(request)
            except AccessDenied as denied:
                return _error(403, "DENIED", denied.message)

        return route

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        user = self._user(request)
        if user is None:
            response = _error(401, "UNAUTHORIZED", "authentication required")
            response.headers["WWW-Authenticate"] = (
                f'Basic realm="{self.context.address}",service="ecr.amazonaws.com"'
            )
            return response
        if request.path == "/v2/":
            return web.json_response({}, headers={"Docker-Distribution-Api-Version": "registry/2.0"})
        found = _PATH.fullmatch(request.path)
        if found is None:
            return _error(404, "UNSUPPORTED", "The operation is unsupported.")
        key, region = user
        name, rest = found["name"], found["rest"]
        is_upload = found["kind"] == "blobs" and rest.partition("/")[0] == "uploads"
        action = _ACTIONS.get((request.method, "uploads" if is_upload else found["kind"]))
        if action is None:
            return _error(405, "UNSUPPORTED", "The operation is unsupported.")
        if self.guard is not None:
            arn = self.context.arn("ecr", region, f"repository/{name}")
            self.guard.require(key, [AccessRequest(f"ecr:{action}", arn)])
        repository = repository_of(self.context.account, region, name)
        if repository is None:
            why = f"The repository with name '{name}' does not exist in the registry with id '{self.context.account}'"
            return _error(404, "NAME_UNKNOWN", why)
        if action == "PutImage":
            return await self._put(request, region, repository, rest)
        return await self._pass_on(request, None)

    async def _put(
        self, request: web.Request, region: str, repository: Any, reference: str
    ) -> web.StreamResponse:
        tag = "" if reference.startswith("sha256:") else reference
        if tag and repository.image_tag_mutability == "IMMUTABLE" and image_of(repository, tag) is not None:
            why = (
                f"The image tag '{tag}' already exists in the '{repository.name}' repository and cannot be "
                "overwritten because the tag is immutable."
            )
            return _error(400, "TAG_INVALID", why)
        manifest = await request.read()
        response = await self._pass_on(request, manifest)
        if response.status < 300:
            _keep(self.context.account, region, repository.name, tag, manifest, request.content_type)
        return response

    def _user(self, request: web.Request) -> tuple[str, str] | None:
        """Key and region of the token."""
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        try:
            user, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        except ValueError:
            return None
        known = self._tokens.get(password)
        if kind.lower() != "basic" or user != "AWS" or known is None or known[2] < self.context.clock.now():
            return None
        return known[0], known[1]

    async def _pass_on(self, request: web.Request, body: bytes | None) -> web.StreamResponse:
        """To the registry program and back, piece by piece: layers are large."""
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON
        }
        data = body if body is not None else request.content if request.can_read_body else None
        async with (
            aiohttp.ClientSession(
                auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
            ) as session,
            session.request(
                request.method,
                f"{self.program}{request.raw_path}",
                headers=headers,
                data=data,
                allow_redirects=False,
            ) as answer,
        ):
            response = web.StreamResponse(status=answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "location"):
                    response.headers[name] = value
            if "Location" in answer.headers:
                parts = urlsplit(answer.headers["Location"])
                query = f"?{parts.query}" if parts.query else ""
                response.headers["Location"] = f"{self.context.address}{parts.path}{query}"
            if "Content-Length" in answer.headers:
                response.headers["Content-Length"] = answer.headers["Content-Length"]
            await response.prepare(request)
            if request.method != "HEAD":
                async for piece in answer.content.iter_chunked(1 << 20):
                    await response.write(piece)
            await response.write_eof()
            return response


def repository_of(account: str, region: str, name: str) -> Any:
    """moto's; None if it does not exist."""
    from moto.backends import get_backend

    return get_backend("ecr")[account][region].repositories.get(name)


def image_of(repository: Any, tag: str) -> Any:
    return next((image for image in repository.images if tag in image.image_tags), None)


def _keep(account: str, region: str, name: str, tag: str, manifest: bytes, kind: str) -> None:
    """For DescribeImages and the other operations on images."""
    from moto.backends import get_backend

    backend = get_backend("ecr")[account][region]
    text = manifest.decode()
    media_type = str(json.loads(text).get("mediaType") or kind)
    backend.put_image(name, text, tag or None, media_type)  # type: ignore[arg-type]


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response(
        {"errors": [{"code": code, "message": message}]},
        status=status,
        headers={"Docker-Distribution-Api-Version": "registry/2.0"},
    )
