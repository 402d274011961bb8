"""How fast the client of `lmi bench` is, beside wrk, boto3 in threads, guidellm and aiperf, on a server of known delay.

The server (`fixed_latency/server.c`) is built here with a C compiler. It answers after 20 ms, or streams 50 tokens, one
every 5 ms, so the highest possible rate is known. The server has one core of the machine, the client another; guidellm
and aiperf, which start processes, have all of them. Their environments (client_tools.py) are made by the first run, and
need 6 GB. Left out is what is not installed, or cannot be.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.client_tools import SECONDS as TOOL_SECONDS
from benchmarks.client_tools import TOOLS, LoadTool
from benchmarks.measure import ROOT, environment, say, scratch_folder
from benchmarks.result import Figure, Result, Skipped
from lmi_deploy.bench.request_records_file import read_records

RUNS = 5
TOOL_RUNS = 3
"""guidellm takes 15 s to start."""
SECONDS = 5
EDGE = 0.3
"""Of a run: streams that began before the measured part are not all in it."""
LATENCY, GAP, TOKENS = 0.020, 0.005, 50
LOADS = (("whole", 64), ("whole", 256), ("stream", 64), ("stream", 256))
EFFICIENCY = {64: 97.0, 256: 95.0}
ERROR_MS, TOKENS_PER_SECOND = 0.5, 50_000.0
SOURCE = ROOT / "benchmarks" / "fixed_latency" / "server.c"


@dataclass(kw_only=True)
class Sample:
    """`rate` in requests/s, `latency` and `cpu` in seconds, cpu for each request (0: unknown). `late`: how late the
    server itself was on average.
    """

    rate: float
    latency: float
    cpu: float = 0.0
    late: float = 0.0


@dataclass(kw_only=True)
class Samples:
    """Of one client and one load."""

    concurrency: int
    ideal: float
    """Seconds that a response takes."""
    each: list[Sample] = field(default_factory=list)

    def shares(self) -> list[float]:
        """Percent of the highest possible rate."""
        return [one.rate * self.ideal / self.concurrency * 100 for one in self.each]

    def errors(self) -> list[float]:
        """Milliseconds that the client added: the server's own lateness is known, and is not the client's."""
        return [(one.latency - self.ideal - one.late) * 1000 for one in self.each]


def run() -> Result:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Skipped("there is no C compiler: install gcc, which builds the server")
    with scratch_folder() as folder:
        program = folder / "server"
        subprocess.run([compiler, "-O2", "-o", str(program), str(SOURCE)], check=True)
        tools, left_out = _tools(folder)
        found = _measured(program, folder, tools)
    rivals = [name for name in ("wrk", "boto3", *TOOLS) if any(name == who for who, *_ in found)]
    left_out += [] if "wrk" in rivals else ["wrk: it is not installed (package wrk)"]
    return Result(
        what="The client of `lmi bench` against a server of known latency, on one core",
        figures=[*_own_figures(found), *(figure for name in rivals for figure in _figures(name, found))],
        versions={
            **{"lmi-deploy": version("lmi-deploy"), "boto3": version("boto3")},
            **{name: tool.version for name, tool in tools.items()},
        },
        details={
            "server": f"whole answers after {LATENCY * 1000:.0f} ms; streams of {TOKENS} tokens, one every "
            f"{GAP * 1000:.0f} ms; its own lateness is subtracted from latencies, and not from rates",
            "runs": f"{RUNS} turns of {SECONDS} s for each client and load, in turns; the warm-up does not count",
            "tools": f"guidellm and aiperf: {TOOL_RUNS} of these turns, of {TOOL_SECONDS} s, with all cores; rates and "
            "latencies are those of their reports",
            "late_ms": {
                " ".join(map(str, key)): [round(one.late * 1000, 3) for one in samples.each]
                for key, samples in found.items()
            },
            "left_out": "; ".join(left_out),
        },
    )


Found = dict[tuple[str, str, int], Samples]


def _tools(folder: Path) -> tuple[dict[str, LoadTool], list[str]]:
    """Those whose environments can be made, and why the others are left out."""
    tools, left_out = {}, []
    for name in TOOLS:
        say(f"  {name}: its environment is made, unless there is one")
        try:
            tools[name] = LoadTool(name, folder / name)
        except SystemExit as reason:
            left_out.append(f"{name}: {' '.join(str(reason).split())}")
    return tools, left_out


def _measured(program: Path, folder: Path, tools: Mapping[str, LoadTool]) -> Found:
    found: Found = {}
    for number in range(RUNS):
        for kind, concurrency in LOADS:
            clients = _clients(kind, folder)
            if number < TOOL_RUNS:
                clients |= {name: partial(_tool, tool, kind) for name, tool in tools.items()}
            for name, measure in clients.items():
                ideal = LATENCY if kind == "whole" else GAP * TOKENS
                samples = found.setdefault(
                    (name, kind, concurrency), Samples(concurrency=concurrency, ideal=ideal)
                )
                samples.each.append(_sample(program, kind, partial(measure, concurrency)))
                share, error = samples.shares()[-1], samples.errors()[-1]
                say(
                    f"  {number + 1} of {RUNS}: {name}, {kind}, {concurrency}: {share:.1f} %, +{error:.2f} ms"
                )
    return found


def _clients(kind: str, folder: Path) -> dict[str, Callable[[int, int], Sample]]:
    own: dict[str, Callable[[int, int], Sample]] = {"lmi": partial(_lmi, kind, folder)}
    if kind == "stream":
        return own
    return {**own, **({"wrk": _wrk} if shutil.which("wrk") else {}), "boto3": _boto3}


def _sample(program: Path, kind: str, measure: Callable[[int], Sample]) -> Sample:
    delay, tokens = (LATENCY, 0) if kind == "whole" else (GAP, TOKENS)
    with _server([str(program), f"{delay * 1e6:.0f}", str(tokens)]) as (port, late):
        sample = measure(port)
    sample.late = late[0]
    return sample


@contextmanager
def _server(command: list[str]) -> Iterator[tuple[int, list[float]]]:
    """Its port, and its mean lateness in seconds once it has ended."""
    late: list[float] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=partial(_use_core, 0)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), late
        finally:
            process.stdin.close()
            late.append(float(process.stdout.readline().split()[0] or 0) / 1e6)


def _use_core(number: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


def _ran(command: list[str]) -> tuple[str, float]:
    """stdout, and the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=partial(_use_core, 1),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _lmi(kind: str, folder: Path, concurrency: int, port: int) -> Sample:
    report, records = folder / "report.json", folder / "records.jsonl"
    _ran(
        [
            *(sys.executable, "-m", "lmi_deploy", "bench", "--url", f"http://127.0.0.1:{port}"),
            *("--stream" if kind == "stream" else "--no-stream", "-c", str(concurrency)),
            *("--duration", str(SECONDS), "-o", str(report), "--records", str(records)),
        ]
    )
    (point,) = json.loads(report.read_text(encoding="utf-8"))["points"]
    rate = _rate(records, is_stream=kind == "stream")
    return Sample(rate=rate, latency=point["metrics"]["e2e"]["mean"], cpu=point["client"]["cpu"] / rate)


def _rate(file: Path, *, is_stream: bool) -> float:
    """Requests a second between the edges of the run. Of streams the tokens are counted: they begin and end together,
    so that 19 or 20 rounds of them in 5 s would differ by 5 %.
    """
    with file.open(encoding="utf-8") as lines:
        (records,) = read_records(lines, str(file)).values()
    counted = [one for one in records if not one.warmup]
    begin, end = counted[0].sent + EDGE, counted[0].sent + SECONDS - EDGE
    times = [at for one in counted for at in (one.arrivals if is_stream else (one.end,))]
    return sum(begin <= at < end for at in times) / (end - begin) / (TOKENS if is_stream else 1)


_WRK = re.compile(r"Latency\s+([\d.]+)(us|ms|s)[\s\S]*Requests/sec:\s+([\d.]+)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def _wrk(concurrency: int, port: int) -> Sample:
    words = ["wrk", "-t1", f"-c{concurrency}", f"-d{SECONDS}s", f"http://127.0.0.1:{port}/invocations"]
    text, cpu = _ran(words)
    found = _WRK.search(text)
    if found is None:
        raise SystemExit(f"error: wrk says something else than expected:\n{text}")
    rate = float(found[3])
    return Sample(rate=rate, latency=float(found[1]) * _UNITS[found[2]], cpu=cpu / (rate * SECONDS))


def _boto3(concurrency: int, port: int) -> Sample:
    text, _ = _ran([sys.executable, "-m", "benchmarks.client_boto3", str(port), str(concurrency)])
    return Sample(**json.loads(text))


def _tool(tool: LoadTool, kind: str, concurrency: int, port: int) -> Sample:
    rate, latency = tool.measure(kind, concurrency, port)
    return Sample(rate=rate, latency=latency)


def _own_figures(found: Found) -> Iterator[Figure]:
    for kind, concurrency in LOADS:
        samples = found["lmi", kind, concurrency]
        what = (
            f"`lmi bench`: {kind} answers, {concurrency} in flight: "
            if kind == "whole"
            else (f"`lmi bench`: streams, {concurrency} in flight: ")
        )
        if kind == "stream":
            tokens = [one.rate * TOKENS for one in samples.each]
            ideal = concurrency / samples.ideal * TOKENS
            aim = TOKENS_PER_SECOND if concurrency == 256 else None
            note = f"of {ideal:,.0f} at most"
            yield Figure.typical(f"{what}rate", tokens, "tokens/s", at_least=aim, note=note)
        else:
            aim = EFFICIENCY[concurrency]
            yield Figure.typical(
                f"{what}share of the highest possible rate", samples.shares(), "%", at_least=aim
            )
        limit = ERROR_MS if concurrency == 64 else None
        yield Figure.typical(f"{what}added to a latency, mean", samples.errors(), "ms", at_most=limit)
        parts, of = (TOKENS, "token") if kind == "stream" else (1, "request")
        cpu = [one.cpu * 1e6 / parts for one in samples.each]
        yield Figure.typical(f"{what}processor time of a {of}", cpu, "us")


def _figures(name: str, found: Found) -> Iterator[Figure]:
    for (who, kind, concurrency), samples in found.items():
        if who == name:
            cpu = median(one.cpu for one in samples.each) * 1e6
            note = (
                f"{cpu:.0f} us of processor time each, " if cpu else ""
            ) + f"+{median(samples.errors()):.1f} ms"
            answers = "streams" if kind == "stream" else f"{kind} answers"
            what = f"{name}: {answers}, {concurrency} in flight: share of the highest possible rate"
            yield Figure.typical(what, samples.shares(), "%", note=note)
