"""`python -m lmi_deploy.server.workers.orphan_watchdog MARK`: kills the workers of a server that was killed.

A server that is killed cannot clean up, but its end of the pipe that is our standard input is closed. Until then it
writes a line for each worker that starts (`+PID STARTED`) and for each that has left nothing behind (`-PID STARTED`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from lmi_deploy.server.workers.orphan_processes import Leader, end_leftovers


def main(mark: str) -> None:
    if leaders := unfinished(sys.stdin):
        end_leftovers(mark, leaders)


def unfinished(lines: Iterable[str]) -> list[Leader]:
    """Those that started and did not end."""
    leaders: set[Leader] = set()
    for line in lines:
        pid, started = line[1:].split()
        leader = Leader(int(pid), float(started))
        leaders = leaders | {leader} if line.startswith("+") else leaders - {leader}
    return sorted(leaders)


if __name__ == "__main__":
    main(*sys.argv[1:])
