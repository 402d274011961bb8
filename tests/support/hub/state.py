"""The state that every handler of the local Hub needs, and the log of its requests."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from lmi_deploy.emulator.faults.middleware import FaultyResponse
from lmi_deploy.emulator.faults.rules import FaultRules
from lmi_deploy.hub.refusal import Refusal, no_repository, token_of
from lmi_deploy.hub.repositories import ModelRepository
from tests.support.hub.repos import HubModels, Repo, Settings

WallClock = Callable[[], float]


@dataclass(slots=True)
class Logged:
    """One request, recorded on arrival; `status` (0: no response) and `sent` are set as it is processed."""

    method: str
    path: str
    query: str
    range: str | None
    authorized: bool
    status: int = 0
    response: web.StreamResponse | None = field(default=None, repr=False)

    @property
    def sent(self) -> int:
        """Bytes of body that left the server."""
        if isinstance(self.response, FaultyResponse):
            return self.response.sent
        body = self.response.body if isinstance(self.response, web.Response) else b""
        return len(body) if isinstance(body, bytes) and self.method != "HEAD" else 0

    @property
    def is_body(self) -> bool:
        """Whether bytes of a repository's file were requested."""
        return self.method == "GET" and ("/resolve" in self.path or self.path.startswith("/cdn/"))


class RequestLog:
    """Every request in the order of arrival; safe to read from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Logged] = []

    def add(self, entry: Logged) -> None:
        with self._lock:
            self._entries.append(entry)

    def all(self) -> list[Logged]:
        with self._lock:
            return list(self._entries)

    def bodies(self) -> list[Logged]:
        """GET requests that sent bytes of files."""
        return [entry for entry in self.all() if entry.is_body and entry.sent]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


@dataclass(slots=True)
class Quota:
    """A fixed window of requests for one kind of URL, as the Hub counts them."""

    kind: str
    limit: int
    window: int
    clock: WallClock
    _opened: float = 0.0
    _used: int = 0

    def take(self) -> bool:
        """Whether one more request is allowed."""
        if self.clock() - self._opened >= self.window:
            self._opened, self._used = self.clock(), 0
        self._used += 1
        return self._used <= self.limit

    def headers(self) -> dict[str, str]:
        left = max(0, self.limit - self._used)
        reset = max(0, round(self._opened + self.window - self.clock()))
        return {
            "RateLimit": f'"{self.kind}";r={left};t={reset}',
            "RateLimit-Policy": f'"fixed window";"{self.kind}";q={self.limit};w={self.window}',
        }


@dataclass(slots=True)
class HubState:
    """The repositories, their access rules, and the lifetime of signed URLs."""

    models: HubModels
    tokens: frozenset[str] = frozenset()
    clock: WallClock = time.time
    link_seconds: int = 3600
    page_size: int = 1000
    quotas: dict[str, Quota] = field(default_factory=dict)
    faults: FaultRules = field(default_factory=FaultRules)
    log: RequestLog = field(default_factory=RequestLog)
    url: str = ""
    cdn_url: str = ""
    secret: bytes = b"only for tests"

    async def visible(self, request: web.Request, model_id: str) -> Repo:
        """The requested repository; a private one looks exactly like a missing one."""
        repo = self.models.find(model_id)
        token = token_of(request)
        if repo is not None and self.may_see(repo, token):
            return repo
        raise (
            Refusal(401, "RepoNotFound", "Invalid username or password.")
            if token is None
            else no_repository()
        )

    async def list_models(self) -> list[ModelRepository]:
        return [repo for model_id in self.models.scan() if (repo := self.models.find(model_id)) is not None]

    def sign(self, name: str, expires: int) -> str:
        return hmac.new(self.secret, f"{name}:{expires}".encode(), hashlib.sha256).hexdigest()

    def knows(self, token: str) -> bool:
        """Without `--token` any token is valid, so that a developer's own does no harm."""
        return not self.tokens or token in self.tokens

    def may_see(self, repo: Repo, token: str | None) -> bool:
        return not repo.settings.private or token in repo.settings.readers

    def may_read(self, settings: Settings, token: str | None) -> bool:
        return not settings.gated or token in settings.accepted


STATE: Final = web.AppKey("state", HubState)
