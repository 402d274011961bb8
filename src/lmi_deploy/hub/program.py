"""The life of `lmi hub serve`: read the folder, listen, announce, serve, end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import UsageRefused
from lmi_deploy.host.hash_cache import HashLedger
from lmi_deploy.hub.app import Mirror
from lmi_deploy.hub.folders import ModelFolders, is_model, missing_shards
from lmi_deploy.hub.repositories import ModelRepository

_WATCH: Final = 0.5
_DRAIN_SECONDS: Final = 2.0
_EVERYWHERE: Final = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class HubServerSettings:
    """`hashes`: the file of hashes of large files, which are computed once; `parent`: a process to end with."""

    root: Path
    host: str
    port: int
    token: Secret | None
    hashes: Path | None
    as_json: bool
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class HubOutput:
    """stdout and stderr: lines for people, or JSON Lines on stdout alone."""

    as_json: bool

    def report(self, text: str) -> None:
        if self.as_json:
            self.event("notice", {"text": text})
        else:
            with contextlib.suppress(OSError):
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            sys.stdout.write(json.dumps({"event": event, **fields}, ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def ready(self, url: str, models: list[ModelRepository], *, needs_token: bool) -> None:
        if self.as_json:
            rows = [_row(model) for model in models]
            self.event("ready", {"url": url, "needs_token": needs_token, "models": rows})
            return
        lines = [f"{model.id}  {size_text(_row(model)['bytes'])}" for model in models]
        total = counted(len(models), "model")
        with contextlib.suppress(OSError):
            variables = f"export HF_ENDPOINT={url}" + (" HF_TOKEN=THE_TOKEN" if needs_token else "")
            served = f"serving {total} at {url}; Ctrl-C stops it"
            sys.stdout.write("\n".join([*lines, served, "", variables, ""]))
            sys.stdout.flush()


def _row(model: ModelRepository) -> dict[str, Any]:
    main = model.at("main")
    assert main is not None
    return {"model": model.id, "commit": main.commit, "files": len(main.files), "bytes": main.size}


async def run(settings: HubServerSettings, output: HubOutput) -> Mirror:
    """Serve until SIGTERM, SIGINT or the end of the parent. UsageRefused if it cannot listen, or has no models."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    folders = ModelFolders(settings.root, HashLedger(settings.hashes), output.report)
    mirror = Mirror(folders, settings.token, settings.host, output.report)
    # The port first: hashing takes minutes, and would be lost.
    with _listen(settings.host, settings.port) as listener:
        reading = asyncio.ensure_future(_models(mirror, settings.root, output))
        stopping = asyncio.ensure_future(_stop_requested(stop, settings.parent))
        await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            # A thread that hashes cannot be ended; the hashes that it finished are kept.
            output.report("stopped while hashing; the next start continues")
            sys.stdout.flush()
            os._exit(130)
        models = reading.result()
        runner = web.AppRunner(mirror.app(), access_log=None, shutdown_timeout=_DRAIN_SECONDS)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            mirror.url = _url(settings.host, listener)
            output.ready(mirror.url, models, needs_token=settings.token is not None)
            await stopping
        finally:
            await runner.cleanup()
    return mirror


async def _models(mirror: Mirror, root: Path, output: HubOutput) -> list[ModelRepository]:
    models = await mirror.list_models()
    if not models:
        if is_model(root):
            raise UsageRefused(
                f"{root} is one model, not a folder of models",
                hint="name the folder above ORG/NAME; the id of a model is its path in that folder",
            )
        raise UsageRefused(
            f"{root} contains no model: there is no folder ORG/NAME with files, and no models--ORG--NAME",
            hint=f"download one into it: hf download ORG/NAME --local-dir {root}/ORG/NAME",
        )
    for model in models:
        if missing := missing_shards(model):
            hint = f"repeat its download; missing: {', '.join(missing[:3])}{' ...' if missing[3:] else ''}"
            output.report(
                f"warning: {model.id} is incomplete, {counted(len(missing), 'file')} missing: {hint}"
            )
    return models


async def _stop_requested(stop: asyncio.Event, parent: int | None) -> None:
    while not stop.is_set() and _is_alive(parent):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _WATCH)


def _is_alive(pid: int | None) -> bool:
    """None: there is no parent to end with."""
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as exc:
        raise UsageRefused(
            f"port {port} of {host} cannot be used: {exc.strerror}",
            hint="choose another port with --port, or --port 0 for any free one",
        ) from exc


def _url(host: str, listener: socket.socket) -> str:
    """What other machines can use: not the address that means all."""
    name = socket.gethostname() if host in _EVERYWHERE else host
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{listener.getsockname()[1]}"
