"""`python -m tests.support.hub --root DIR`: the local Hub as a program, which ends by itself."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path

from lmi_deploy.emulator.faults.rule_files import load_rules
from lmi_deploy.emulator.faults.rules import BadRule, FaultRule
from tests.support.hub.repos import HubModels
from tests.support.hub.server import run_hub
from tests.support.hub.state import HubState


def main() -> None:
    options = _options()
    state = HubState(
        HubModels(options.root), tokens=frozenset(options.token), link_seconds=options.link_seconds
    )
    if options.faults is not None:
        state.faults.add(*_rules(options.faults))
    state.models.scan()
    asyncio.run(_serve(state, options))


def _rules(path: Path) -> tuple[FaultRule, ...]:
    try:
        return load_rules(path)
    except BadRule as exc:
        raise SystemExit(f"{exc.message}\n{exc.hint}") from exc


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.support.hub", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder of <org>/<name>/ repositories")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (0: any free one)")
    parser.add_argument("--ready-file", type=Path, help="written with the address once the Hub answers")
    parser.add_argument("--stop-after", type=float, help="seconds after which it ends")
    parser.add_argument("--parent-pid", type=int, help="it ends when this process is gone")
    parser.add_argument("--faults", type=Path, help="file of fault rules (docs/reference/fault-rules.md)")
    parser.add_argument(
        "--token", action="append", default=[], help="a good token (repeat); without, all are"
    )
    parser.add_argument("--link-seconds", type=int, default=3600, help="life of a signed address")
    return parser.parse_args()


async def _serve(state: HubState, options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if options.stop_after is not None:
        loop.call_later(options.stop_after, stop.set)
    watch = asyncio.create_task(_watch(options.parent_pid, stop)) if options.parent_pid else None
    await run_hub(state, options.port, stop, lambda: _announce(state.url, options.ready_file))
    if watch is not None:
        watch.cancel()


def _announce(url: str, ready_file: Path | None) -> None:
    if ready_file is not None:
        part = ready_file.with_name(ready_file.name + ".part")
        part.write_text(url, "utf-8")
        part.replace(ready_file)
    print(f"Hub at {url}", flush=True)


async def _watch(pid: int, stop: asyncio.Event) -> None:
    """Set `stop` once the process is gone: nothing of a test outlives it."""
    while _alive(pid):
        await asyncio.sleep(0.5)
    stop.set()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    main()
