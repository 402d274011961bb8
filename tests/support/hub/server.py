"""The complete local Hub: routes, the log, and two ports (the Hub, and its store of large files)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from lmi_deploy.emulator.faults.middleware import FAULTS_PATH, NoResponse, add_fault_routes, deliver, faulty
from lmi_deploy.emulator.faults.rules import FaultRule
from lmi_deploy.hub.api import HUB, MODEL, add_api
from lmi_deploy.hub.files import RESOLVE
from lmi_deploy.hub.refusal import Refusal
from lmi_deploy.hub.repositories import Snapshot
from tests.support.hub import files
from tests.support.hub.access import check_token
from tests.support.hub.repos import HubModels, Repo, Settings, blob_of
from tests.support.hub.state import STATE, HubState, Logged, RequestLog

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
HOST: Final = "127.0.0.1"


def hub_app(state: HubState) -> web.Application:
    layers = [deliver, _logged, faulty(state.faults), _refusing]
    app = web.Application(middlewares=layers, client_max_size=1 << 24)
    app[STATE] = app[HUB] = state
    add_fault_routes(app, state.faults)
    app.router.add_get(MODEL + "/xet-read-token/{commit}", files.xet_token)
    add_api(app)
    app.router.add_get(RESOLVE, files.resolve)
    app.router.add_get(files.RESOLVE_CACHE + "{model:[^/]+/[^/]+}/{revision}/{path:.+}", files.resolve)
    app.router.add_get("/cdn/{sha256}", files.cdn)
    return app


@web.middleware
async def _logged(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Outside of the faults: the log has what the client gets."""
    entry = Logged(
        method=request.method,
        path=request.path,
        query=request.query_string,
        range=request.headers.get("Range"),
        authorized="Authorization" in request.headers,
    )
    request.app[STATE].log.add(entry)
    try:
        entry.response = await handler(request)
        entry.status = 0 if isinstance(entry.response, NoResponse) else entry.response.status
    except web.HTTPException as exc:
        entry.status = exc.status
        raise
    return entry.response


@web.middleware
async def _refusing(request: web.Request, handler: Handler) -> web.StreamResponse:
    state = request.app[STATE]
    quota = None
    if not request.path.startswith(("/cdn/", FAULTS_PATH)):
        quota = state.quotas.get("resolvers" if "/resolve" in request.path else "api")
    try:
        if quota is not None and not quota.take():
            raise Refusal(429, "", "You have been rate limited. Sign in for a higher limit.")
        check_token(state, request)
        response = await handler(request)
    except Refusal as exc:
        response = exc.response()
    if quota is not None:
        response.headers.update(quota.headers())
    return response


@dataclass(slots=True)
class LocalHub:
    """A running Hub: its URL, its log, and a way to publish."""

    state: HubState

    @property
    def url(self) -> str:
        return self.state.url

    @property
    def log(self) -> RequestLog:
        return self.state.log

    def publish(self, repo_id: str, files: Mapping[str, bytes], *, branch: str = "main") -> Snapshot:
        """A new commit of the branch with exactly these files; the repository is created if needed."""
        repo = self.state.models.find(repo_id) or self.state.models.add(Repo(repo_id))
        return repo.publish({path: blob_of(path, content) for path, content in files.items()}, branch)

    def fail(self, *rules: FaultRule) -> None:
        """From now on these faults, too (docs/reference/fault-rules.md)."""
        self.state.faults.add(*rules)

    def settings(self, repo_id: str) -> Settings:
        """The access settings of the repository; change them in place."""
        repo = self.state.models.find(repo_id)
        if repo is None:
            raise KeyError(repo_id)
        return repo.settings


def listen(port: int = 0) -> socket.socket:
    """A listening socket on the loopback: its port is known before the loop runs."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(128)
    return listener


async def run_hub(state: HubState, port: int, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    """Serve until `stop` is set. Large files have a second port: another origin, as on the Hub."""
    hub, cdn = listen(port), listen()
    state.url, state.cdn_url = (f"http://{HOST}:{s.getsockname()[1]}" for s in (hub, cdn))
    runner = web.AppRunner(hub_app(state), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        for listener in (hub, cdn):
            await web.SockSite(runner, listener).start()
        ready()
        await stop.wait()
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def serve_hub(
    repos: Mapping[str, Mapping[str, bytes]] | None = None, *, state: HubState | None = None
) -> Iterator[LocalHub]:
    """A Hub in this process, on a thread and loop of its own; `repos` are files by repository."""
    hub = LocalHub(state or HubState(HubModels()))
    for repo_id, content in (repos or {}).items():
        hub.publish(repo_id, content)
    started, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(run_hub(hub.state, 0, stop, started.set)), daemon=True
    )
    thread.start()
    try:
        if not started.wait(10):
            raise RuntimeError("the local Hub did not start within 10 s")
        yield hub
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
