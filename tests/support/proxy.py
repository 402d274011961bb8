"""An HTTP proxy in front of a real server: faults by rules (docs/reference/fault-rules.md), a log of every
request.

It passes everything on byte for byte, including the Host header, so that signatures stay valid.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from lmi_deploy.emulator.faults.middleware import FaultyResponse, NoResponse, deliver, faulty
from lmi_deploy.emulator.faults.rules import Call, FaultRule, FaultRules
from tests.support.hub.server import HOST, listen

_HOP: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect"}
)
_OURS: Final = ("User-Agent", "Content-Type", "Accept", "Accept-Encoding")
_LARGE: Final = 1 << 20
Tamper = Callable[[Call, bytes], bytes]
"""Changes the body of a request in transit."""


@dataclass(slots=True)
class Reply:
    """A response in transit. Without a Content-Length it ends where its chunks do."""

    status: int
    headers: dict[str, str]
    content: bytes


Alter = Callable[[Call, Reply], Reply]
"""Changes a response in transit."""


@dataclass(slots=True)
class Passed:
    """A request as it came, and the status of its response (0: none)."""

    method: str
    path: str
    headers: Mapping[str, str]
    status: int = 0
    size: int = 0


@dataclass
class Proxy:
    """`fail` adds faults, `log` is the list of requests, in order."""

    target: str
    url: str = ""
    rules: FaultRules = field(default_factory=FaultRules)
    log: list[Passed] = field(default_factory=list)
    tamper: Tamper | None = None
    alter: Alter | None = None

    def fail(self, *rules: FaultRule) -> None:
        self.rules.add(*rules)

    def clear(self) -> None:
        self.rules.clear()
        self.log.clear()
        self.tamper = self.alter = None

    def requests(self, method: str, part: str = "") -> list[Passed]:
        """The requests of a method whose path and query contain `part`."""
        return [passed for passed in self.log if passed.method == method and part in passed.path]


@contextmanager
def proxied(target: str) -> Iterator[Proxy]:
    """A proxy on a thread and loop of its own, before `target` (a URL without a path)."""
    proxy = Proxy(target)
    listener = listen()
    proxy.url = f"http://{HOST}:{listener.getsockname()[1]}"
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with aiohttp.ClientSession(auto_decompress=False, connector=_connector()) as session:
            runner = web.AppRunner(_app(proxy, session), access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.SockSite(runner, listener).start()
            ready.set()
            await stop.wait()
            await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def _connector() -> aiohttp.TCPConnector:
    # A connection of its own for each request, so that none was closed by the server meanwhile.
    return aiohttp.TCPConnector(force_close=True, limit=0, ssl=False)


def _app(proxy: Proxy, session: aiohttp.ClientSession) -> web.Application:
    @web.middleware
    async def logged(request: web.Request, handler: Callable[[web.Request], object]) -> web.StreamResponse:
        passed = Passed(request.method, request.raw_path, dict(request.headers))
        proxy.log.append(passed)
        response: web.StreamResponse = await handler(request)  # type: ignore[misc]
        passed.status = 0 if isinstance(response, NoResponse) else response.status
        passed.size = int(request.headers.get("Content-Length") or 0)
        return response

    async def forward(request: web.Request) -> web.StreamResponse:
        return await _forward(proxy, session, request)

    app = web.Application(middlewares=[deliver, logged, faulty(proxy.rules)], client_max_size=1 << 40)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


async def _forward(proxy: Proxy, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
    body = await request.read()
    if proxy.tamper is not None:
        body = proxy.tamper(Call(request.method, request.raw_path, request.headers), body)
    sent = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP]
    target = urlsplit(proxy.target)
    url = URL(f"{target.scheme}://{target.netloc}{request.raw_path}", encoded=True)
    async with session.request(
        request.method,
        url,
        headers=sent,
        data=io.BytesIO(body),
        allow_redirects=False,
        skip_auto_headers=_OURS,
    ) as response:
        content = await response.read()
    headers = {name: value for name, value in response.headers.items() if name.lower() not in _HOP}
    reply = Reply(response.status, {"Content-Length": str(len(content)), **headers}, content)
    if proxy.alter is not None:
        reply = proxy.alter(Call(request.method, request.raw_path, request.headers), reply)
    return _response(reply, request.method)


def _response(reply: Reply, method: str) -> web.StreamResponse:
    headers, content = dict(reply.headers), reply.content
    output = headers.pop("Content-Length", None)
    if method == "HEAD" or content or output is None:
        chunks = (content[first : first + _LARGE] for first in range(0, len(content), _LARGE))
        length = None if output is None else int(output)
        return FaultyResponse(chunks, length=length, headers=headers, status=reply.status)
    return web.Response(status=reply.status, headers=headers)
