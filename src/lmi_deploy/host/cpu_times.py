"""How busy the processors are that this process may use."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")


class CpuTimes(NamedTuple):
    """Since any fixed moment: only the difference of two is of use. Both in the same unit."""

    idle: float
    total: float


def usable_processors() -> frozenset[int]:
    """By their numbers."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cpu_times(processors: Collection[int], stat: Path = _STAT) -> CpuTimes:
    """Of all processes on Linux; elsewhere the time that this process did not use is idle."""
    try:
        found = parse_stat(stat.read_text(encoding="ascii"), processors)
    except (OSError, ValueError):
        found = CpuTimes(0, 0)
    if found.total:  # some sandboxes show zeros only
        return found
    total = time.monotonic() * len(processors)
    return CpuTimes(total - time.process_time(), total)


def parse_stat(text: str, processors: Collection[int]) -> CpuTimes:
    """The content of /proc/stat (proc(5)): waiting for a disk is idle, the time that a host took away is not."""
    idle = total = 0
    names = {f"cpu{number}" for number in processors}
    for line in text.splitlines():
        name, *fields = line.split()
        if name in names:
            # user, nice, system, idle, iowait, irq, softirq, steal; user contains the guests' time that follows.
            ticks = [int(field) for field in fields[:8]]
            idle += sum(ticks[3:5])
            total += sum(ticks)
    return CpuTimes(idle, total)


class CpuIdleMeter:
    """The share of the processors' time that was idle since the last call."""

    def __init__(self) -> None:
        self._processors = usable_processors()
        self._before = cpu_times(self._processors)

    def __call__(self) -> float:
        before, self._before = self._before, cpu_times(self._processors)
        passed = self._before.total - before.total
        return (self._before.idle - before.idle) / passed if passed > 0 else 1.0
