"""The emulator as a program: started, announced, run until it must stop, stopped with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from lmi_deploy.emulator.composition import Emulator, Settings
from lmi_deploy.emulator.faults.byte_proxy import ByteProxy
from lmi_deploy.emulator.faults.rules import FaultRules
from lmi_deploy.emulator.hosting.instances import ContainerRuntime
from lmi_deploy.emulator.iam.keyring import KeyPair
from lmi_deploy.emulator.record_store import owned
from lmi_deploy.errors import UsageRefused

HOST: Final = "127.0.0.1"
_WATCH: Final = 0.5


async def run(settings: Settings, runtime: ContainerRuntime, environ: Mapping[str, str]) -> None:
    """Serve until SIGTERM, SIGINT, the end of the time given or of the parent."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    # The stored files hold keys, and the containers' files decide what runs: no other user may read or write them.
    os.umask(0o077)
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    with _work_folder(settings, runtime) as work:
        emulator = Emulator(settings, runtime, environ, work)
        runner = web.AppRunner(emulator.app.app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            # With a proxy, clients connect to it: it gets the port.
            address = await _listen(runner, 0 if settings.proxy else settings.port)
            emulator.context.address = address
            emulator.resume()
            with _proxied(settings, address, emulator.context.faults) as (aws, s3):
                _announce(aws, s3, emulator.keys.displayed, as_json=settings.as_json)
                await _stop_requested(settings, stop_requested)
        finally:
            await runner.cleanup()
            await emulator.stop()


@contextlib.contextmanager
def _proxied(settings: Settings, address: str, faults: FaultRules) -> Iterator[tuple[str, str]]:
    """The addresses for clients: the services themselves, or the byte proxies before them."""
    if not settings.proxy:
        yield address, settings.s3
        return
    targets = {"aws": address, **({"s3": settings.s3} if settings.s3 else {})}
    ports = {"aws": settings.port}
    proxies: dict[str, ByteProxy] = {}
    try:
        for name, target in targets.items():
            proxies[name] = ByteProxy(name, target, faults, port=ports.get(name, 0))
    except OSError as exc:
        raise _port_in_use(settings.port, exc) from exc
    for proxy in proxies.values():
        proxy.start()
    try:
        yield proxies["aws"].url, proxies["s3"].url if "s3" in proxies else ""
    finally:
        for proxy in proxies.values():
            proxy.close()


async def _listen(runner: web.AppRunner, port: int) -> str:
    site = web.TCPSite(runner, HOST, port)
    try:
        await site.start()
    except OSError as exc:
        raise _port_in_use(port, exc) from exc
    _, bound = runner.addresses[0][:2]
    return f"http://{HOST}:{bound}"


def _port_in_use(port: int, why: OSError) -> UsageRefused:
    return UsageRefused(
        f"port {port} of {HOST} cannot be used: {why.strerror}",
        hint="choose another port with --port, or --port 0 for any free one",
    )


async def _stop_requested(settings: Settings, stop_requested: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + settings.stop_after if settings.stop_after is not None else None
    while not stop_requested.is_set() and (end is None or loop.time() < end) and _has_parent(settings.parent):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop_requested.wait(), _WATCH)


def _has_parent(pid: int | None) -> bool:
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def _work_folder(settings: Settings, runtime: ContainerRuntime) -> Iterator[Path]:
    """Where containers run: in the given folder, so that files left by a kill can be found; else in a temporary one.

    After a kill of this program, too, its processes are stopped and the temporary folder is deleted.
    """
    processes, mark = runtime.processes, runtime.process_mark
    if settings.folder is not None:
        with owned(settings.folder), processes.cleanup_on_exit(mark, folders=()):
            yield settings.folder
        return
    with tempfile.TemporaryDirectory(prefix="lmi-emulator-") as folder:
        with processes.cleanup_on_exit(mark, folders=(Path(folder),)):
            yield Path(folder)


def _announce(address: str, s3: str, key: KeyPair | None, *, as_json: bool) -> None:
    """The variables that a client sets, as shell lines or JSON; `key` is None if it must already have the key."""
    environment = {
        "AWS_ENDPOINT_URL": address,
        **({"AWS_ENDPOINT_URL_S3": s3} if s3 else {}),
        **({"AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret} if key is not None else {}),
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    if as_json:
        write_event("listening", {"environment": environment})
        return
    sys.stdout.writelines(f"export {name}={value}\n" for name, value in environment.items())
    sys.stdout.flush()


def write_event(event: str, fields: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()
