"""Diagnosing logs: the look-up of the vendors' messages, a whole diagnosis, and `lmi diagnose` as a process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.installed import installed
from benchmarks.measure import in_turns
from benchmarks.result import Figure, Result
from lmi_deploy.catalog.vendor_messages import vendor_messages
from lmi_deploy.planning.cause_search import find_causes
from lmi_deploy.planning.log_lines import is_routine

LINES = 10_000
RUNS = 9
AIM = 0.05
_ROUTINE = (
    "[INFO ] PyProcess - W-196-model-stdout: INFO 10-21 11:22:{:02} [loggers.py:127] Engine 000: Avg throughput: "
    "{}.1 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 7.0%"
)
_FAILED = (
    "[INFO ] PyProcess - W-196-model-stdout: Traceback (most recent call last):",
    '[INFO ] PyProcess - W-196-model-stdout:   File "/usr/lib/python3/dist-packages/vllm/lora/x.py", line 12, in check',
    "[INFO ] PyProcess - W-196-model-stdout: ValueError: num_lookahead_slots must be positive",
)


def run() -> Result:
    core = installed()
    log = _log()
    messages = vendor_messages()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.log")
        path.write_text("\n".join(log), encoding="utf-8")
        samples = in_turns({"process": [core.lmi, "diagnose", "--log", str(path)]}, runs=RUNS)
    whole = _timed(lambda: find_causes(log))
    failing = [line for line in log if not is_routine(line)]
    looked_up = _timed(lambda: [messages.find(line) for line in failing])
    return Result(
        what=f"a log of {LINES:,} lines with one failure at its end; the table has {messages.count:,} messages",
        figures=[
            Figure.typical(
                "look-up of the vendors' messages, of all lines that are not routine", looked_up, at_most=AIM
            ),
            Figure.typical("causes of the log, in a process that has read the tables", whole),
            Figure.typical("`lmi diagnose --log FILE`", samples["process"]),
        ],
        versions=core.versions(),
    )


def _log() -> list[str]:
    routine = [_ROUTINE.format(number % 60, number) for number in range(LINES - len(_FAILED))]
    return [*routine, *_FAILED]


def _timed(work: Callable[[], object]) -> list[float]:
    work()
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return times
