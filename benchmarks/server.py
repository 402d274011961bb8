"""What our HTTP front end adds to a worker: an echo through it, and the same echo asked of a worker's own socket."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.measure import ROOT, say
from benchmarks.result import Figure, Result
from benchmarks.server_installed import installed_figures
from benchmarks.server_lines import first_chunk, http, opened, turn
from benchmarks.suites import cases
from lmi_deploy.server.workers.djl_protocol import pack_request
from tests.support.djl_engine import VERSION, engine_dir
from tests.support.running_server import serving, worker_python, write_model

RUNS = 9
REQUESTS = 1600
QUEUED = 16
CHUNKS = 15
BODY = b"x" * 256
AIM = 1.0
RECORDED = ROOT / "tests" / "server"
_REPLAY = "tests/server/test_recordings.py::test_every_recording_is_answered_equally_or_as_listed"
HANDLER = """
from djl_python import Output

def pieces():
    for number in range(8):
        yield "piece %d\\n" % number

def handle(inputs):
    if inputs.is_empty():
        return None
    asked = inputs.get_as_bytes()
    return Output().add_stream_content(pieces()) if asked == b"stream" else Output().add(asked)
"""
_ADDED = (
    f"p50 through the front end, {QUEUED} connections with one request in flight each, less p50 at a worker's own "
    f"socket with {QUEUED} requests queued before it and asked one after another, each counted from when it was "
    "queued; each turn measures both, one right after the other; the figure is the median of the turns' differences. "
    "Between quick calls the front end sends one request ahead, as a worker that dies has not begun that one. "
    "Pipelined: all of them written to the worker's socket at once, which no server does"
)


@dataclass
class Samples:
    """p50 in seconds, and requests/s: one a turn."""

    p50: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)

    def add(self, seconds: Sequence[float], rate: float) -> None:
        self.p50.append(median(seconds))
        self.rate.append(rate)

    def less(self, other: Samples) -> list[float]:
        return [own - other for own, other in zip(self.p50, other.p50, strict=True)]


def run() -> Result:
    with tempfile.TemporaryDirectory(prefix="lmi-b-", dir="/tmp") as folder:  # short: a socket lies below it
        model = write_model(Path(folder, "m"), HANDLER)
        with serving(model) as served, _worker(model, Path(folder, "sock")) as own_socket:
            port = served.port
            samples = own, other, _ = asyncio.run(_turns(port, own_socket))
            first = [first_chunk(port, http(b"stream")) for _ in range(CHUNKS)]
        theirs_too = installed_figures(
            model, Path(folder, "djl"), body=BODY, in_flight=QUEUED, runs=RUNS, count=REQUESTS
        )
    return Result(
        what=f"an echo of {len(BODY)} bytes by DJL's own Python engine {VERSION}, one worker; client on this machine",
        figures=[
            *_speed(own, other),
            Figure.typical("Model server: first chunk of a stream after", _ms(first), "ms"),
            *theirs_too,
            *_recordings(),
        ],
        versions={"lmi-deploy": version("lmi-deploy"), "djl_python": VERSION},
        details={
            "added": _ADDED,
            "turns": f"{RUNS} of {REQUESTS} requests each way, after one that does not count; connections stay open",
            "p50_milliseconds": {
                name: [round(p50 * 1000, 3) for p50 in found.p50]
                for name, found in zip(("front end", "worker", "worker, pipelined"), samples, strict=True)
            },
        },
    )


async def _turns(port: int, own_socket: Path) -> tuple[Samples, Samples, Samples]:
    """Through the front end, at the worker's socket, and the same pipelined. A worker takes one connection, ever."""
    own, other, piped = found = Samples(), Samples(), Samples()
    direct = [await opened(own_socket, _front_end_request())]
    through = [await opened(port, http(BODY)) for _ in range(QUEUED)]
    ways = ((through, 1, 1), (direct, QUEUED, 1), (direct, QUEUED, QUEUED))
    for number in range(RUNS + 1):
        for samples, (lines, queued, at_once) in zip(found, ways, strict=True):
            used = await turn(lines, queued=queued, at_once=at_once, count=REQUESTS)
            if number:
                samples.add(*used)
        if number:
            rates = (f"{samples.rate[-1]:.0f}" for samples in found)
            say(
                "  {} of {}: {} requests/s, at the worker's socket {}, pipelined {}".format(
                    number, RUNS, *rates
                )
            )
    return own, other, piped


def _front_end_request() -> bytes:
    """The same properties, so that the worker has the same work."""
    headers = [("Content-Length", str(len(BODY))), ("Content-Type", "text/plain"), ("handler", "handle")]
    more = [("Host", "127.0.0.1"), ("requestId", "38e025ff-9b10-4181-8403-b19e93ed636f")]
    return pack_request([*headers, *more], [("data", BODY)])


@contextmanager
def _worker(model: Path, place: Path) -> Iterator[Path]:
    """A worker without a front end, at its socket."""
    engine = engine_dir()
    lines: Sequence[str | Path] = [
        *(worker_python(), engine / "djl_python_engine.py", "--sock-type", "unix", "--sock-name", place),
        *("--model-dir", model, "--entry-point", "model.py", "--device-id", "-1", "--cluster-size", "1"),
        *("--recommended-entry-point", "", "--log-level", "info", "--no-async-mode"),
    ]
    environ = {**os.environ, "PYTHONPATH": f"{engine}{os.pathsep}{model}"}
    with subprocess.Popen(lines, cwd=model, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not any("Python engine started." in line for line in process.stdout):
                raise SystemExit("error: the worker did not start")
            yield place
        finally:
            process.kill()


def _speed(own: Samples, other: Samples) -> list[Figure]:
    at = f"{QUEUED} in flight"
    p50s = [f"{median(samples.p50) * 1000:.2f} ms" for samples in (own, other)]
    note = (
        f"p50 {p50s[0]}; at the worker's own socket, {QUEUED} queued and asked one after another, {p50s[1]}"
    )
    return [
        Figure.typical(
            f"Model server: p50 added at {at}", _ms(own.less(other)), "ms", at_most=AIM, note=note
        ),
        Figure.typical(f"Model server: echo at {at}", own.rate, "requests/s"),
        Figure.typical("Worker's own socket: echo, one after another", other.rate, "requests/s"),
    ]


def _ms(seconds: Sequence[float]) -> list[float]:
    return [one * 1000 for one in seconds]


def _recordings() -> list[Figure]:
    """Replayed now: none may differ but those that differences.txt lists, and every one of these must."""
    passed, tried = cases(_REPLAY)
    if passed != tried:
        raise SystemExit(f"error: {_REPLAY} fails: no figure is worth anything before it passes")
    total = len(list((RECORDED / "recordings").glob("*.json")))
    # Lines of `netty` are about cases of the HTTP library, not about recordings.
    lines = [
        line
        for line in (RECORDED / "differences.txt").read_text().splitlines()
        if line and not line.startswith(("#", "netty"))
    ]
    differing = len({line.partition("|")[0].strip() for line in lines})
    note = (
        f"{total - differing} equal, {differing} differ on purpose, in {len(lines)} ways: each with its reason in "
        "tests/server/differences.txt"
    )
    what = "Recordings of DJLServing: responses that are equal, or differ as documented"
    return [Figure(what=what, value=total, unit="", total=total, note=note)]
