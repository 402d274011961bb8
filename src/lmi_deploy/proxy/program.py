"""The life of the proxy: listen, announce, serve, drain, end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import uvicorn

from lmi_deploy.domain.openai_client import PROXY_KEY_VARIABLE, client_lines
from lmi_deploy.errors import NotFound, UsageRefused
from lmi_deploy.proxy.app import ProxyApp
from lmi_deploy.proxy.composition import ProxySettings, compose
from lmi_deploy.proxy.deployments import Deployments
from lmi_deploy.proxy.openai_error import OpenAIError
from lmi_deploy.proxy.uvicorn_protocol import ProxyProtocol

_WATCH: Final = 0.5
_KEEP_ALIVE: Final = 75
"""Seconds that an idle client keeps its connection."""
_TICKS: Final = 10
"""Of uvicorn, ten a second, between two looks for slow clients."""
_MOST_UNVERIFIED: Final = 2048
_SAME_REPORT: Final = 10.0
"""Seconds before the same line is written again."""


class ProxyServer(uvicorn.Server):
    """Signals are handled by `run`; requests in flight may end within `drain_seconds`, or until `force_exit`."""

    def __init__(self, app: ProxyApp, *, drain_seconds: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(ProxyProtocol, unverified={}, most_unverified=_most_unverified()),  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE,
            )
        )
        self._drain_seconds = drain_seconds

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in [*self.server_state.connections]:
                connection.end_if_late(now)  # type: ignore[union-attr]
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state, loop = self.server_state, asyncio.get_running_loop()
        for connection in [*state.connections]:
            connection.shutdown()
        end = loop.time() + self._drain_seconds
        while state.tasks and not self.force_exit and loop.time() < end:
            await asyncio.sleep(0.02)
        for task in [*state.tasks]:
            task.cancel()
        if state.tasks:
            await asyncio.wait([*state.tasks], timeout=1.0)


class ProxyOutput:
    """stdout and stderr: lines for people, or JSON Lines on stdout alone."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._last = ("", 0.0)

    def write_event(self, event: str, fields: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            sys.stdout.write(json.dumps({"event": event, **fields}, ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def report(self, text: str) -> None:
        """The same line not more often than every 10 s."""
        now = time.monotonic()
        if self._last[0] == text and now - self._last[1] < _SAME_REPORT:
            return
        self._last = (text, now)
        if self._as_json:
            self.write_event("notice", {"text": text})
        else:
            with contextlib.suppress(OSError):
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()

    def ready(self, address: str, names: tuple[str, ...], key: str | None, example: str) -> None:
        """`key`: the generated one; None if the user gave it."""
        base = f"{address}/v1"
        if self._as_json:
            fields = {"url": address, "base_url": base, "api_key": key, "models": list(names)}
            self.write_event("ready", fields)
            return
        served = ", ".join(names) or "no deployment yet (`lmi up RECIPE` creates one)"
        variable = f"export {PROXY_KEY_VARIABLE}={key}\n\n" if key is not None else ""
        sys.stdout.write(f"{base} serves {served}; Ctrl-C stops it\n\n{variable}{example}")
        sys.stdout.flush()


async def run(settings: ProxySettings, environ: Mapping[str, str], output: ProxyOutput) -> None:
    """Serve until SIGTERM, SIGINT or the end of the parent. UsageRefused if it cannot listen."""
    for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    parts = compose(settings, environ, output.report)
    listener = _listen(settings.host, settings.port)
    address = _address(settings.host, listener)
    server = ProxyServer(parts.app, drain_seconds=settings.drain_seconds)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, server, output)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    watching = asyncio.create_task(_stop_when_orphaned(server, settings.parent))
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        names = await parts.deployments.names()
        await _require_named(settings, parts.deployments, output)
        key = settings.key.value if settings.key_is_generated else None
        output.ready(address, names, key, await _example(address, names, parts.deployments))
        gc.freeze()  # what is here now stays: the collector need not look at it again
        await serving
    finally:
        watching.cancel()
        server.should_exit = True
        await serving
        parts.client.close()
        listener.close()


async def _require_named(settings: ProxySettings, deployments: Deployments, output: ProxyOutput) -> None:
    """NotFound if one of the deployments that the user named does not exist; it may still be starting."""
    for ref in settings.refs or ():
        try:
            await deployments.find(ref.name)
        except OpenAIError as error:
            if error.status == 404:
                raise NotFound(error.message, hint="`lmi ls` lists the deployments") from None
            output.report(error.message)


def _stop(server: ProxyServer, output: ProxyOutput) -> None:
    """The first signal lets requests end, the second one does not."""
    if server.should_exit:
        server.force_exit = True
        return
    server.should_exit = True
    count = len(server.server_state.tasks)
    if count:
        requests = "1 request" if count == 1 else f"{count} requests"
        output.report(f"stopping once {requests} ended; Ctrl-C again stops at once")


async def _stop_when_orphaned(server: ProxyServer, parent: int | None) -> None:
    while parent is None or os.getppid() == parent:
        await asyncio.sleep(_WATCH)
    server.should_exit = server.force_exit = True


def _most_unverified() -> int:
    """Half of the files that this process may open: the other half is for clients with the key, and for requests."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_UNVERIFIED if files == resource.RLIM_INFINITY else min(_MOST_UNVERIFIED, files // 2)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(2048)
    except OSError as exc:
        raise UsageRefused(
            f"port {port} of {host} cannot be used: {exc.strerror or exc}",
            hint="choose another with --port, or 0 for any",
        ) from exc
    return listener


def _address(host: str, listener: socket.socket) -> str:
    """As a client on this machine reaches it."""
    port = listener.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


async def _example(address: str, names: tuple[str, ...], deployments: Deployments) -> str:
    """Python for the first deployment that can be looked up now."""
    name, embeds, texts = next(iter(names), "NAME"), False, False
    with contextlib.suppress(OpenAIError):
        found, _ = await deployments.find(name)
        embeds = bool(found.api.embeddings) and not found.api.chat
        texts = bool(found.api.completions) and not found.api.chat
    message = '[{"role": "user", "content": "Hello"}]'
    call = f'chat.completions.create(model="{name}", messages={message}).choices[0].message.content'
    if embeds:
        call = f'embeddings.create(model="{name}", input="Hello").data[0].embedding'
    elif texts:
        call = f'completions.create(model="{name}", prompt="Hello").choices[0].text'
    return f"{client_lines(address)}  print(client.{call})\n"
