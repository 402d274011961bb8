"""The application: routes, the token, and a line for each file that was sent."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from lmi_deploy.domain.local_host_names import foreign_host
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.secret import Secret
from lmi_deploy.hub.api import HUB, add_api
from lmi_deploy.hub.files import RESOLVE, resolve
from lmi_deploy.hub.folders import ModelFolders
from lmi_deploy.hub.refusal import Refusal, no_repository, token_of
from lmi_deploy.hub.repositories import ModelRepository

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAXIMUM_BODY: Final = 1 << 20


@dataclass(slots=True)
class Mirror:
    """The models of a folder, for everyone who has the token, or for everyone."""

    folders: ModelFolders
    token: Secret | None
    host: str
    """The address that it listens at."""
    report: Callable[[str], None]
    page_size: int = 1000
    url: str = ""
    files_sent: int = field(default=0)
    bytes_sent: int = field(default=0)

    async def visible(self, request: web.Request, model_id: str) -> ModelRepository:
        # Not in the loop's thread: the first look at a folder may hash it.
        repository = await asyncio.to_thread(self.folders.find, model_id)
        if repository is None:
            raise no_repository()
        return repository

    async def list_models(self) -> list[ModelRepository]:
        ids = await asyncio.to_thread(self.folders.ids)
        found = [await asyncio.to_thread(self.folders.find, model_id) for model_id in ids]
        return [repository for repository in found if repository is not None and repository.at("main")]

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._served], client_max_size=MAXIMUM_BODY)
        app[HUB] = self
        add_api(app)
        app.router.add_get(RESOLVE, resolve)
        return app

    @web.middleware
    async def _served(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check(request)
            response = await handler(request)
        except Refusal as refusal:
            return refusal.response()
        if request.method == "GET" and "/resolve/" in request.path and response.status in (200, 206):
            size = response.content_length or 0
            self.files_sent += 1
            self.bytes_sent += size
            self.report(f"{request.remote} {request.path} {size_text(size)}")
        return response

    def _check(self, request: web.Request) -> None:
        """Unless a token was set, any is accepted: people have their own from the real Hub in HF_TOKEN."""
        if refusal := foreign_host(request.headers.get("Host"), self.host):
            raise Refusal(403, "", refusal)
        if self.token is None:
            return
        given = token_of(request)
        if given is None:
            raise Refusal(401, "", "This Hub needs a token: set HF_TOKEN.")
        if not hmac.compare_digest(
            given.encode("utf-8", "surrogateescape"), self.token.value.encode("utf-8", "surrogateescape")
        ):
            raise Refusal(401, "", "Invalid credentials in Authorization header")
