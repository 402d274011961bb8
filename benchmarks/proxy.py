"""What `lmi proxy` adds: requests to a model server of fixed latency, directly and through the proxy, in turns."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

import psutil

from benchmarks.measure import ROOT, environment, say
from benchmarks.proxy_upstream import FIRST, LATENCY, PACE, TOKENS
from benchmarks.result import Figure, Result
from benchmarks.server_lines import TIMEOUT, Line, turn
from tests.support.proxy_process import proxy, write_record

RUNS = 9
IN_FLIGHT = 64
REQUESTS = 1280
FIRSTS, WARM_UP = 100, 5
STREAMS = 16
PACED_RUNS = 3
ADDED_MS, LATER_MS, TOKENS_PER_SECOND = 2.0, 1.0, 20_000.0
VLLM = {"engine": "vllm", "handler": "djl_python.lmi_vllm.vllm_async_service", "template": ""}
_END = b"\r\n0\r\n\r\n"


@dataclass(frozen=True)
class Way:
    """A port, and the request that a client sends to it."""

    port: int
    path: str
    key: str = ""

    def request(self, *, stream: bool, user: str = "") -> bytes:
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        fields = {"model": "fixed", "messages": messages, "max_tokens": 64, "stream": stream, "user": user}
        body = json.dumps(fields).encode()
        head = (f"POST {self.path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json")
        key = (f"Authorization: Bearer {self.key}",) if self.key else ()
        return "\r\n".join([*head, *key, f"Content-Length: {len(body)}", "", ""]).encode() + body


def run() -> Result:
    with tempfile.TemporaryDirectory() as folder, _upstream() as port:
        write_record(Path(folder), "fixed", port, **VLLM)
        with proxy(Path(folder), "fixed") as running:
            direct, through = (
                Way(port, "/invocations"),
                Way(running.port, "/v1/chat/completions", running.key),
            )
            added, p50s = asyncio.run(_added(direct, through))
            later = _later(direct, through)
            (server,) = psutil.Process(running.process.pid).children()
            rates = [_tokens_per_second(through, server) for _ in range(-1, RUNS)][1:]
            alone = [_tokens_per_second(through, server, user="paced") for _ in range(PACED_RUNS)]
    note = f"p50 {p50s[1] * 1000:.1f} ms, directly {p50s[0] * 1000:.1f} ms"
    return Result(
        what=f"`lmi proxy` before a model server that answers after {LATENCY * 1000:.0f} ms; all on this machine",
        figures=[
            Figure.typical(
                f"Proxy: p50 added at {IN_FLIGHT} in flight", _ms(added), "ms", at_most=ADDED_MS, note=note
            ),
            Figure.typical("Proxy: first token of a stream later by", _ms(later), "ms", at_most=LATER_MS),
            Figure.typical(
                "Proxy: streamed tokens for a second of one core",
                rates,
                "tokens/s",
                at_least=TOKENS_PER_SECOND,
                note=f"{STREAMS} streams at once, as fast as the server sends",
            ),
            Figure.typical(
                "Proxy: the same, each token read alone",
                alone,
                "tokens/s",
                note=f"{STREAMS} streams at once, a token every {PACE * 1000:.0f} ms in each",
            ),
        ],
        versions={"lmi-deploy": version("lmi-deploy")},
        details={
            "added": f"{RUNS} turns of {REQUESTS} requests each way on {IN_FLIGHT} connections, after one that does "
            "not count; the figure is the median of the turns' differences",
            "first_token": f"{FIRSTS} pairs of streams on two open connections; the server sends its first token after "
            f"{FIRST * 1000:.0f} ms",
            "tokens": f"{STREAMS} x {TOKENS:,} tokens, each a chunk of its own, divided by the processor time of the "
            "proxy's process meanwhile",
        },
    )


@contextmanager
def _upstream() -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.proxy_upstream"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def _added(direct: Way, through: Way) -> tuple[list[float], tuple[float, float]]:
    """The difference of each turn's p50s; and the median p50s, direct and through the proxy."""
    ways = [await _open_lines(direct), await _open_lines(through)]
    p50s: list[list[float]] = [[], []]
    for number in range(RUNS + 1):
        for lines, found in zip(ways, p50s, strict=True):
            durations, _ = await turn(lines, queued=1, at_once=1, count=REQUESTS)
            found.append(median(durations))
        say(f"  {number} of {RUNS}: {p50s[1][-1] * 1000:.2f} ms, directly {p50s[0][-1] * 1000:.2f} ms")
    kept = [found[1:] for found in p50s]
    added = [one - other for other, one in zip(*kept, strict=True)]
    return added, (median(kept[0]), median(kept[1]))


async def _open_lines(way: Way) -> list[Line]:
    request, loop = way.request(stream=False), asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: Line(request), "127.0.0.1", way.port) for _ in range(IN_FLIGHT)
    ]
    lines = [line for _, line in opened]
    responses = await asyncio.gather(*(line.learn() for line in lines))
    failed = next((each for each in responses if not each.startswith(b"HTTP/1.1 200 ")), None)
    if failed is not None:
        raise SystemExit(f"error: {way.path} at port {way.port}: {failed[:500]!r}")
    return lines


def _later(direct: Way, through: Way) -> list[float]:
    """Seconds by which the first byte of a body comes later through the proxy, of pairs of streams in turns."""
    with _connected(direct) as plain, _connected(through) as proxied:
        pairs = [
            (_first_token(plain, direct), _first_token(proxied, through)) for _ in range(-WARM_UP, FIRSTS)
        ]
    return [second - first for first, second in pairs[WARM_UP:]]


def _connected(way: Way) -> socket.socket:
    return socket.create_connection(("127.0.0.1", way.port), timeout=TIMEOUT)


def _first_token(line: socket.socket, way: Way) -> float:
    request, data = way.request(stream=True, user="short"), b""
    started = time.perf_counter()
    line.sendall(request)
    while not data.partition(b"\r\n\r\n")[2]:
        data += line.recv(1 << 16)
    duration = time.perf_counter() - started
    while not data.endswith(_END):
        data += line.recv(1 << 16)
    return duration


def _tokens_per_second(way: Way, server: psutil.Process, *, user: str = "") -> float:
    """Of a second of the processor, not of the clock: what else runs on the machine does not count."""
    lines = [_connected(way) for _ in range(STREAMS)]
    before = _processor_seconds(server)
    for line in lines:
        line.sendall(way.request(stream=True, user=user))
    tails = asyncio.run(_drain(lines))
    spent = _processor_seconds(server) - before
    if any(not tail.endswith(_END) for tail in tails):
        raise SystemExit("error: a stream did not come to its end")
    return STREAMS * TOKENS / spent


async def _drain(lines: Sequence[socket.socket]) -> list[bytes]:
    async def drain(line: socket.socket) -> bytes:
        line.setblocking(False)
        tail, loop = b"", asyncio.get_running_loop()
        while not tail.endswith(_END) and (data := await loop.sock_recv(line, 1 << 16)):
            tail = (tail + data)[-64:]
        line.close()
        return tail

    return await asyncio.wait_for(asyncio.gather(*map(drain, lines)), TIMEOUT)


def _processor_seconds(server: psutil.Process) -> float:
    times = server.cpu_times()
    return float(times.user + times.system)


def _ms(seconds: Sequence[float]) -> list[float]:
    return [one * 1000 for one in seconds]
