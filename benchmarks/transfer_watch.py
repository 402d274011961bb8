"""A row of commands as one piece of work: seconds, and the most memory that its process tree ever had."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

from benchmarks.measure import ROOT, environment

NAP = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    seconds: float
    memory_mb: float
    cpu: float
    """Seconds of processor that the tree used, where it could still be asked."""


def watched(commands: Sequence[Sequence[str]], more: Mapping[str, str]) -> ProcessSample:
    started, memory, cpu = time.perf_counter(), 0.0, 0.0
    for command in commands:
        before = _children_cpu()
        memory = max(memory, _one(command, more))
        cpu += _children_cpu() - before
    return ProcessSample(seconds=time.perf_counter() - started, memory_mb=memory / 1e6, cpu=cpu)


def _children_cpu() -> float:
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)


def _one(command: Sequence[str], more: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        list(command), cwd=ROOT, env=environment(more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    most = 0.0
    while not _ended(process):
        most = max(most, _tree(process.pid))
    assert process.stderr is not None
    text = process.stderr.read().decode(errors="replace")
    process.stderr.close()
    if process.returncode:
        raise SystemExit(f"error: {' '.join(command)}: exit code {process.returncode}\n{text[-2000:]}")
    return most


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(NAP)
    except subprocess.TimeoutExpired:
        return False
    return True


def _tree(pid: int) -> float:
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.Error:
        return float(total)
    return float(total)
