"""The error of the client itself: it measures a server that knows how long each response took."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from lmi_deploy.bench.client_health import p99
from lmi_deploy.bench.self_test_server import SERVED
from lmi_deploy.inference_client.client import HttpAddress, InferenceClient

LATENCY: Final = 0.02
_BODY: Final = b'{"messages": [{"role": "user", "content": "self-test"}]}'
_HEADERS: Final = (("Content-Type", "application/json"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """Seconds that the client adds to a latency. `efficiency`: its share of the highest possible rate."""

    concurrency: int
    requests: int
    mean_error: float
    p99_error: float
    efficiency: float


@contextmanager
def fixed_latency_server(latency: float = LATENCY) -> Iterator[int]:
    """Its port. It ends with us, however we end: its standard input is ours."""
    command = [sys.executable, "-m", "lmi_deploy.bench.self_test_server", str(latency)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        assert server.stdin
        assert server.stdout
        try:
            yield int(server.stdout.readline())
        finally:
            server.stdin.close()


async def measure_client(port: int, concurrency: int, *, seconds: float) -> SelfTest:
    """As a run does: connections are opened first, and not counted."""
    client = InferenceClient()
    address = HttpAddress("http", "127.0.0.1", port, "/invocations")
    errors: list[float] = []
    done: list[float] = []

    async def requests(until: float) -> None:
        while time.perf_counter() < until:
            exchange = await client.post(address, _HEADERS, _BODY, timeout=10)
            await exchange.read()
            errors.append(exchange.last_at - exchange.sent_at - float(exchange.header(SERVED)))
            done.append(exchange.last_at)

    async def load(length: float) -> None:
        until = time.perf_counter() + length
        await asyncio.gather(*(requests(until) for _ in range(concurrency)))

    try:
        await load(0.2)
        errors.clear()
        done.clear()
        began = time.perf_counter()
        await load(seconds)
    finally:
        client.close()
    ideal = concurrency / LATENCY
    return SelfTest(
        concurrency=concurrency,
        requests=len(errors),
        mean_error=fmean(errors),
        p99_error=p99(errors) or 0.0,
        efficiency=len(done) / max(max(done) - began, 1e-9) / ideal,
    )
