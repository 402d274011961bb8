"""The report about the workers on the control socket."""

from __future__ import annotations

import os
from collections.abc import Iterable

import psutil

from lmi_deploy.server.workers.pool import Pool


def workers_of(pools: Iterable[Pool]) -> list[dict[str, object]]:
    """Process id, resident bytes and phase of every worker that runs or is starting."""
    found: list[dict[str, object]] = []
    for pool in pools:
        for session in pool.starting:
            if session.pid is not None:
                found.append(_worker(session.pid, "loading"))
        for slot in pool.running:
            found.append(_worker(slot.shift.pid, "busy" if slot.busy else "ready"))
    return found


def is_dead(pools: Iterable[Pool]) -> bool:
    """Whether a model has lost its last worker since the last request to it.

    HTTP clients see it only with their next request, as with the real server; the supervisor of the deployment sees
    it at once.
    """
    return any(
        pool.running and not any(_is_own_worker(slot.shift.pid) for slot in pool.running) for pool in pools
    )


def _is_own_worker(pid: int | None) -> bool:
    """Whether it is a running child of this process: the number alone may now belong to another process."""
    try:
        process = psutil.Process(pid) if pid else None
        return process is not None and process.ppid() == os.getpid()
    except psutil.Error:
        return False


def _worker(pid: int | None, phase: str) -> dict[str, object]:
    return {"pid": pid, "rss_bytes": _resident(pid), "phase": phase}


def _resident(pid: int | None) -> int | None:
    try:
        return int(psutil.Process(pid).memory_info().rss) if pid else None
    except psutil.Error:
        return None
