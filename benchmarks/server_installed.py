"""The same echo through a DJLServing that is installed here (DJL_SERVING_HOME); no figure where there is none."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from statistics import median

from benchmarks.result import Figure
from benchmarks.server_lines import http, opened, turn
from tests.support.real_djl import installed


def installed_figures(
    model: Path, folder: Path, *, body: bytes, in_flight: int, runs: int, count: int
) -> list[Figure]:
    """p50 and requests/s, by the same client and as many runs as ours."""
    if "DJL_SERVING_HOME" not in os.environ:
        return []
    folder.mkdir()
    port = _free_port()
    settings = folder / "config.properties"
    settings.write_text(f"inference_address=http://127.0.0.1:{port}\nload_models=ALL\n")
    with installed(model, "--config", str(settings), "--port", str(port), environ={}) as server:
        server.wait_for("ready")
        used = asyncio.run(_turns(port, body, in_flight, runs, count))
    p50s, rates = [median(seconds) * 1000 for seconds, _ in used], [rate for _, rate in used]
    return [
        Figure.typical(f"DJLServing, installed here: p50 at {in_flight} in flight", p50s, "ms"),
        Figure.typical(f"DJLServing, installed here: echo at {in_flight} in flight", rates, "requests/s"),
    ]


async def _turns(
    port: int, body: bytes, in_flight: int, runs: int, count: int
) -> list[tuple[list[float], float]]:
    lines = [await opened(port, http(body)) for _ in range(in_flight)]
    every = [await turn(lines, queued=1, at_once=1, count=count) for _ in range(runs + 1)]
    return [(list(seconds), rate) for seconds, rate in every[1:]]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
